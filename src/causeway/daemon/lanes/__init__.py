"""The lanes of this process, and which of them relays which partition."""
