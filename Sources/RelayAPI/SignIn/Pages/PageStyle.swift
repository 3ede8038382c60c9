/// The style sheet of the pages.
///
/// A separate file, so that the pages need no inline styles. Sizes follow the user's font size, and colours the light
/// or dark preference; contrast ratios are above 4.5, and controls are at least 44 pixels high.
enum PageStyle {
    static let css = """
        :root {
          color-scheme: light dark;
          --ground: #f5f6f8; --paper: #ffffff; --ink: #1c2733; --quiet: #52606d; --line: #7b8794;
          --strong: #0b5cad; --on-strong: #ffffff; --bad: #a61b1b; --bad-ground: #fdecec; --good-ground: #e6f4ea;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #12171d; --paper: #1b232c; --ink: #e6ebf0; --quiet: #a9b4c0; --line: #7d8a97;
            --strong: #7fb8f5; --on-strong: #0d1722; --bad: #ffb3b3; --bad-ground: #3d1a1c; --good-ground: #17351f;
          }
        }
        * { box-sizing: border-box; }
        body {
          margin: 0; padding: 1rem; min-height: 100vh; background: var(--ground); color: var(--ink);
          font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
        }
        main {
          max-width: 26rem; margin: 4vh auto 2rem; padding: 1.5rem; background: var(--paper);
          border: 1px solid var(--line); border-radius: .75rem; overflow-wrap: anywhere;
        }
        h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
        h2 { font-size: 1.125rem; margin: 2rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
        p { margin: .5rem 0; }
        .quiet { color: var(--quiet); font-size: .9375rem; }
        label { display: block; margin: 1rem 0 .25rem; font-weight: 600; }
        input[type=email], input[type=password], input[type=text] {
          width: 100%; min-height: 2.75rem; padding: .5rem .75rem; font: inherit; color: inherit;
          background: var(--paper); border: 1px solid var(--line); border-radius: .5rem;
        }
        input[aria-invalid=true] { border-color: var(--bad); border-width: 2px; }
        .choice { display: flex; gap: .75rem; align-items: flex-start; min-height: 2.75rem; margin: .75rem 0 0;
          padding: .625rem 0; font-weight: 400; }
        .choice input { width: 1.25rem; height: 1.25rem; margin: .125rem 0 0; flex: none; accent-color: var(--strong); }
        button {
          min-height: 2.75rem; padding: .5rem 1.25rem; margin: 1rem 0 0; font: inherit; font-weight: 600;
          color: var(--on-strong); background: var(--strong); border: 2px solid var(--strong); border-radius: .5rem;
          cursor: pointer;
        }
        button.wide { width: 100%; }
        button.second { color: var(--strong); background: transparent; margin: .5rem .5rem 0 0; }
        a { color: var(--strong); }
        a, button, input { outline-offset: 2px; }
        :focus-visible { outline: 3px solid var(--strong); }
        .notice { margin: 1rem 0; padding: .75rem 1rem; border-radius: .5rem; background: var(--good-ground); }
        .notice.bad { color: var(--bad); background: var(--bad-ground); }
        ul.plain { list-style: none; margin: 0; padding: 0; }
        ul.plain li { padding: .75rem 0; border-bottom: 1px solid var(--line); }
        ul.plain li:last-child { border-bottom: 0; }
        footer { max-width: 26rem; margin: 0 auto; text-align: center; }
        @media (max-width: 30rem) {
          body { padding: 0; }
          main { margin: 0; min-height: 80vh; border: 0; border-radius: 0; padding: 1.25rem; }
        }
        """
}

/// Passes the web auth token to the page that opened the window.
enum HandOverScript {
    /// The browser delivers the message only if the origin of the opener is one of those given.
    static let javaScript = """
        "use strict";
        (function () {
          var page = document.getElementById("hand-over");
          var status = document.getElementById("status");
          var token = page.getAttribute("data-token");
          var origins = page.getAttribute("data-origins").split(" ");
          page.removeAttribute("data-token");
          if (!window.opener) {
            status.textContent = "You are signed in, but the app that asked is no longer open. "
              + "Go back to it and sign in again.";
            return;
          }
          origins.forEach(function (origin) {
            window.opener.postMessage({ ckWebAuthToken: token, ckSession: token }, origin);
          });
          status.textContent = "You are signed in. You can close this window and go back to the app.";
          window.close();
        })();
        """
}
