"""Amazon MSK without Amazon: brokers that check IAM logins, the services that give out credentials,
and Amazon's own library in a JVM."""
