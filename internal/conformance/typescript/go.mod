module github.com/toolexec/toolexec/internal/conformance/typescript

go 1.26

replace github.com/toolexec/toolexec => ../../..

require (
	github.com/stretchr/testify v1.12.1
	github.com/toolexec/toolexec v0.0.0-00010101000000-000000000000
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/text v0.14.0 // indirect
)
