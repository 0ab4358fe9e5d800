"""Why a plan is what it is: each choice against others, what two plans differ in, what would change it."""
