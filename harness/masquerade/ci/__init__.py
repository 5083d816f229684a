"""Pipelines: a project's tox environments or contracts as jobs of even length for GitHub Actions or Buildkite."""
