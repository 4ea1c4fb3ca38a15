"""The grammar of replies: labels, thought marks, statements, JSON."""
