"""The physics under every scene: antenna arrays, propagation and its laws, hardware; and the types of recipe fields."""
