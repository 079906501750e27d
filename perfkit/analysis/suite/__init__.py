"""A suite's folder as rows of variants: read, compared, checked."""
