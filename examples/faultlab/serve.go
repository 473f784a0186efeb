package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

//go:embed page.html lab.css lab.js icon.svg
var assets embed.FS

// assetTypes are those that are served as they are. The media types are not left
// to the machine's table, since browsers are told not to guess.
var assetTypes = map[string]string{
	"lab.css":  "text/css; charset=utf-8",
	"lab.js":   "text/javascript; charset=utf-8",
	"icon.svg": "image/svg+xml",
}

var pageTemplate = template.Must(template.ParseFS(assets, "page.html"))

// server is the lab as a page.
type server struct {
	play    func(ctx context.Context, p plan, tell func(moment))
	exposed bool // to other machines, as somebody asked for
	runs    runs
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /run", s.stream)
	for name, media := range assetTypes {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			http.ServeFileFS(w, r, assets, name)
		})
	}
	return s.strict(mux)
}

// policy lets the page load what this server serves, and nothing else: no inline
// script, no frame, no other host.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// strict adds the headers that every answer has, and refuses a name that is not
// this machine's: a page elsewhere must not reach a loopback server by a name
// that it lets point here.
func (s *server) strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.exposed && !isLoopback(r.Host) {
			http.Error(w, "The lab answers to localhost and loopback addresses only.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// shown is what the template shows.
type shown struct {
	Choices []choice
	plan    plan
	Problem string // with the query
	Linked  bool   // the query says what to run
}

// Chosen is the option of c that the plan takes.
func (d *shown) Chosen(c choice) option { return *c.option(*c.field(&d.plan)) }

func (s *server) page(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	d := &shown{Choices: choices, Linked: len(q) > 0}
	status := http.StatusOK
	var err error
	if d.plan, err = parsePlan(q); err != nil {
		d.Problem, d.Linked, status = sentence(err), false, http.StatusBadRequest
		d.plan, _ = parsePlan(nil)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := pageTemplate.Execute(w, d); err != nil {
		log.Print("faultlab: the page could not be written: ", err)
	}
}

func sentence(err error) string { return "This cannot be run: " + err.Error() + "." }

// serve serves the lab at address until ctx ends or the program is interrupted.
func serve(ctx context.Context, address string, exposed bool, say *log.Logger) error {
	if !exposed && !isLoopback(address) {
		return fmt.Errorf("%s can be reached from other machines, and whoever reaches it can make the lab run; "+
			"use 127.0.0.1:8080, or add -expose if that is meant", address)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s := &server{play: play, exposed: exposed}
	h := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return ctx }, // so that its end ends the runs
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	say.Printf("faultlab: http://%s", listener.Addr())
	closed := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		closed <- h.Shutdown(grace)
	}()
	if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return errors.Join(err, <-closed)
	}
	return <-closed
}

// isLoopback reports whether address, a host with or without a port, is this
// machine alone.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
