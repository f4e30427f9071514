"""What tests are judged by: models and strategies that do not use the code under test."""
