extension DemoPages {
    /// The page of the browser demo.
    static let page = #"""
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="robots" content="noindex">
        <title>Zonecast: a live demo</title>
        <link rel="icon" href="data:,">
        <link rel="stylesheet" href="demo.css">
        <script type="module" src="demo.js"></script>
        </head>
        <body>
        <a class="skip" href="#panes">To the clients</a>
        <header id="top">
        <h1>Zonecast <span id="place"></span></h1>
        <div id="actions" role="toolbar" aria-label="What to show">
        <button id="run-tour" class="strong">Run tour</button>
        <button id="share">Share with Bob</button>
        <button id="permission" disabled>Make read-write</button>
        <button id="stop" disabled>Stop sharing</button>
        <button id="restart" hidden>Restart relay</button>
        <button id="reset">Start over</button>
        <button id="phone" hidden aria-expanded="false" aria-controls="code">On your phone</button>
        </div>
        </header>
        <noscript><p class="trouble">This demo is three clients written in JavaScript. Allow scripts for this page.</p></noscript>
        <p id="message" role="status"></p>
        <div id="code" hidden></div>
        <main id="panes"></main>
        <section id="steps" aria-labelledby="steps-title">
        <h2 id="steps-title">What they say to each other</h2>
        <p class="quiet" id="hint">Point at a step, or go from step to step with the arrow keys, to read the real messages.</p>
        <div id="timeline" role="region" aria-labelledby="steps-title" aria-describedby="hint"></div>
        <div id="detail" aria-live="off"></div>
        </section>
        <section id="tour" aria-labelledby="tour-title" hidden>
        <h2 id="tour-title">Tour</h2>
        <ol id="checks"></ol>
        <p id="verdict" role="status"></p>
        </section>
        <footer>
        <p class="quiet">Keys: <kbd>1</kbd> <kbd>2</kbd> <kbd>3</kbd> client, <kbd>a</kbd> add, <kbd>o</kbd> offline or online,
        <kbd>s</kbd> share, <kbd>w</kbd> rights, <kbd>l</kbd> stop sharing, <kbd>k</kbd> restart relay, <kbd>t</kbd> tour.
        The clients stand on <a href="../zonecast.js">zonecast.js</a>, which any page may use.</p>
        </footer>
        </body>
        </html>

        """#
}
