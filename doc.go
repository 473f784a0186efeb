// Package toolexec placeholder.
package toolexec
