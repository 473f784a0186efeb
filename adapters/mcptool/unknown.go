package mcptool

import (
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// isUnknownTool reports whether err says that there is no tool of that name. It has
// the code of any invalid parameter, so this is the one place where words have to be
// read; the specification gives them as an example.
func isUnknownTool(err error, name string) bool {
	var e *jsonrpc.Error
	return errors.As(err, &e) && e.Code == jsonrpc.CodeInvalidParams &&
		strings.HasPrefix(strings.ToLower(e.Message), "unknown tool") && strings.Contains(e.Message, name)
}
