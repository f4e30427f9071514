"""Programs that run at the ends of the pipes, each as a process of its own; nothing imports them."""
