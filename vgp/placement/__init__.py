"""A need -> the machine that meets it, and the rules that say why another cannot."""
