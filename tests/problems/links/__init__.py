"""Tests of links inside documents."""
