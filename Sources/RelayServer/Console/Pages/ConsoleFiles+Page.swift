extension ConsoleFiles {
    /// The one page of the console.
    static let page = #"""
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="robots" content="noindex">
        <meta name="color-scheme" content="light dark">
        <title>Zonecast Console</title>
        <link rel="icon" href="data:,">
        <link rel="stylesheet" href="console.css">
        <script type="module" src="main.js"></script>
        </head>
        <body>
        <noscript><p class="trouble">The console is written in JavaScript. Allow scripts for this page, or use the command line: zonecast help</p></noscript>
        <div id="app"></div>
        <div id="toasts" role="status" aria-live="polite"></div>
        </body>
        </html>

        """#
}
