// Package typescript has the TypeScript compiler judge envelope.d.ts: answers
// of a real executor are written down as constants of the declared types, and
// compiled together with a host that decides what to do next, and with what
// must not compile. It holds tests only.
//
// The tests need node and npm; without them they are skipped. The compilers,
// the current one and the last of version 5, are pinned in package-lock.json,
// downloaded on first use and kept in the user's cache. To move to other
// versions change package.json, then: npm install --package-lock-only
package typescript
