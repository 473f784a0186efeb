// Package httptool is for tools that speak HTTP: evidence from the wire, and what
// answers mean.
//
// The same Go error can mean that nothing was sent, and that it may have happened:
// "context deadline exceeded" reads alike from the dial and from behind a request
// that was written. A [Transport] watches its connections and tells the attempt which
// it was, so that most failures of a write end as provably not committed, and are
// retried safely, instead of with a person.
//
//	answer or error                              what it says about its request
//	no connection, no byte, refused stream       not sent
//	a status that refuses (400, 409, 429 …)      rejected: nothing changed
//	a status that does not say (500, 503, 302 …) in doubt
//	success, body unusable                       committed, result unknown
//	anything else                                in doubt
//
// [CheckResponse] knows the statuses, and a [Checker] what a service means by those
// that have two meanings. An [Endpoint] is the common tool in a few lines, and a
// [Lookup] its verifier. No byte of an answer reaches a message for the model.
//
// One error speaks for one request. It is proof about an attempt only where the
// attempt makes no other request (the tool declares OneRequest) or where every
// send is marked (MarksSent, and a Transport that takes marks back).
package httptool
