"""The physical arm; nothing yet."""
