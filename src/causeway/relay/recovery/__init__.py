"""Where does a flow stand? Read off the logs of both sides, never guessed."""
