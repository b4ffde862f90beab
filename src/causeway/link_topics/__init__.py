"""What a link keeps in topics on its target: progress, claims, directives, offset map."""
