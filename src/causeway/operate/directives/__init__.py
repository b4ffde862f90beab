"""Gives directives to a running mirror: pause, resume, restart, throttle, step down."""
