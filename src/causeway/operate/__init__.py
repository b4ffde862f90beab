"""What a person asks for: plan, status. Answers are values; how they look is the command line's."""
