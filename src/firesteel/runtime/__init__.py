"""Running compiled code: dispatch on guards, continuations, nested calls and limits."""
