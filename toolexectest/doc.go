// Package toolexectest holds what is needed to test tools and stores.
//
// [RunStore] and [CheckStore] are the conformance kit for stores: named rules,
// each of which says in words what a [toolexec.Store] must do.
package toolexectest
