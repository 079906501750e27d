"""Splits protobuf messages into columns, for the formats that are written in it."""
