"""Analysis of a trace: where its time goes, what bounds it, how far from its roofs it is."""
