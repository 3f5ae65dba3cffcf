"""The board for people: one self-contained page, figures for papers, and tables in Markdown and LaTeX."""
