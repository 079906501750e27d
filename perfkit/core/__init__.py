"""Plain data and basic functions that every package may import; imports no other package of perfkit."""
