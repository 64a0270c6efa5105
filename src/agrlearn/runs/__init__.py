"""Run directories, whoever made them: opened again, used, and put side by side."""
