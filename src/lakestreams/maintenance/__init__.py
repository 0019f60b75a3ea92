"""Maintains tables while runs go on: trims bronze, compacts small files, removes files of old versions."""
