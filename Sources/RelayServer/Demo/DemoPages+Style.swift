extension DemoPages {
    /// What the browser demo looks like; colours follow the reader's light or dark preference.
    static let style = #"""
        :root {
          color-scheme: light dark;
          --ground: #f5f6f8; --paper: #ffffff; --ink: #1c2733; --quiet: #52606d; --line: #c3cad2; --edge: #7b8794;
          --strong: #0b5cad; --on-strong: #ffffff; --bad: #a61b1b; --bad-ground: #fdecec; --good: #1b6e36; --good-ground: #e6f4ea;
          --late: #8a5300; --looked: #e3eefa;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #12171d; --paper: #1b232c; --ink: #e6ebf0; --quiet: #a9b4c0; --line: #3a4653; --edge: #7d8a97;
            --strong: #7fb8f5; --on-strong: #0d1722; --bad: #ffb3b3; --bad-ground: #3d1a1c; --good: #8fdaa6; --good-ground: #17351f;
            --late: #f0c070; --looked: #24384d;
          }
        }
        * { box-sizing: border-box; }
        [hidden] { display: none !important; }
        body {
          margin: 0; padding: .75rem 1rem 1rem; background: var(--ground); color: var(--ink); min-height: 100vh;
          font: 1rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
        }
        h1 { font-size: 1.25rem; margin: 0; }
        h1 span { color: var(--quiet); font-weight: 400; font-size: .875rem; overflow-wrap: anywhere; }
        h2 { font-size: 1rem; margin: 0; }
        h3 { font-size: .875rem; margin: .75rem 0 .25rem; }
        h4 { font-size: .8125rem; margin: .5rem 0 .25rem; color: var(--quiet); font-weight: 600; overflow-wrap: anywhere; }
        p { margin: .5rem 0; }
        a { color: var(--strong); }
        .quiet { color: var(--quiet); font-size: .875rem; }
        .skip { position: absolute; left: -99rem; }
        .skip:focus { left: 1rem; top: .25rem; background: var(--paper); padding: .5rem; z-index: 2; }
        :focus-visible { outline: 3px solid var(--strong); outline-offset: 2px; }
        button, input[type=text] {
          font: inherit; min-height: 2.25rem; white-space: nowrap; padding: .25rem .75rem; border-radius: .5rem; border: 1px solid var(--edge);
          background: var(--paper); color: var(--ink);
        }
        button { cursor: pointer; font-weight: 600; }
        button:hover:not(:disabled) { border-color: var(--strong); color: var(--strong); }
        button:disabled { color: var(--quiet); border-color: var(--line); cursor: default; font-weight: 400; }
        button.strong { background: var(--strong); color: var(--on-strong); border-color: var(--strong); }
        button.strong:disabled { background: var(--line); border-color: var(--line); color: var(--quiet); }
        button.strong:hover:not(:disabled) { color: var(--on-strong); filter: brightness(1.1); }
        kbd { border: 1px solid var(--edge); border-radius: .25rem; padding: 0 .3rem; font: .8125rem ui-monospace, monospace; }

        #top { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center; justify-content: space-between; }
        #actions { display: flex; flex-wrap: wrap; gap: .5rem; }
        #message { min-height: 1.45rem; color: var(--quiet); font-size: .875rem; margin: .375rem 0; }
        #message.bad { color: var(--bad); }
        #code { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: 1rem; margin-bottom: .75rem;
          display: flex; gap: 1rem; align-items: center; flex-wrap: wrap; }
        #code svg { width: 12rem; height: 12rem; background: #fff; fill: #000; border-radius: .25rem; }
        #code p { overflow-wrap: anywhere; flex: 1 1 14rem; }

        #panes { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: .75rem; align-items: stretch; }
        .pane { background: var(--paper); border: 1px solid var(--line); border-top: 4px solid var(--edge); border-radius: .75rem;
          padding: .75rem; min-height: 15rem; display: flex; flex-direction: column; }
        .pane.live { border-top-color: var(--good); }
        .pane.offline { border-top-color: var(--late); }
        .pane > header { display: flex; justify-content: space-between; align-items: center; gap: .5rem; }
        .pane > header h2 span { color: var(--quiet); font-weight: 400; }
        .switch { display: inline-flex; align-items: center; gap: .5rem; min-width: 6.5rem; }
        .switch::before { content: ""; width: 2rem; height: 1.125rem; border-radius: 1rem; background: var(--edge); flex: none;
          box-shadow: inset 0 0 0 2px var(--edge); background-image: radial-gradient(circle at .5625rem 50%, var(--paper) 42%, transparent 44%); }
        .switch[aria-checked=true]::before { background-color: var(--good); box-shadow: inset 0 0 0 2px var(--good);
          background-image: radial-gradient(circle at 1.4375rem 50%, var(--paper) 42%, transparent 44%); }
        .facts { display: flex; flex-wrap: wrap; gap: .125rem 1rem; margin: .5rem 0; font-size: .8125rem; }
        .facts div { display: flex; gap: .375rem; }
        .facts dt { color: var(--quiet); }
        .facts dd { margin: 0; font-variant-numeric: tabular-nums; font-weight: 600; }
        .facts .pending.some dd { color: var(--late); }
        .trouble { color: var(--late); font-size: .875rem; margin: .25rem 0; }
        .trouble:empty { display: none; }
        .zone { margin-top: .5rem; }
        .zone h3 { display: flex; gap: .5rem; align-items: center; margin: 0 0 .25rem; overflow-wrap: anywhere; }
        .badge { font-weight: 400; font-size: .75rem; color: var(--quiet); border: 1px solid var(--line); border-radius: 1rem; padding: 0 .5rem; }
        .badge.locked { color: var(--late); border-color: var(--late); }
        .notes { list-style: none; margin: 0; padding: 0; max-height: 12.5rem; overflow-y: auto; }
        .notes li { display: flex; align-items: center; gap: .375rem; border-radius: .375rem; padding: .0625rem .125rem; }
        .notes input[type=checkbox] { width: 1.125rem; height: 1.125rem; accent-color: var(--strong); flex: none; margin: 0 .25rem; }
        .notes input[type=text] { flex: 1; min-width: 0; border-color: transparent; background: transparent; min-height: 2rem; padding: .125rem .375rem; }
        .notes input[type=text]:hover { border-color: var(--line); }
        .notes li.done input[type=text] { text-decoration: line-through; color: var(--quiet); }
        .notes li.pending input[type=text] { font-style: italic; }
        .notes li.pending::after { content: "✎"; color: var(--late); }
        .notes button { min-height: 2rem; min-width: 2rem; padding: 0; border-color: transparent; background: transparent; color: var(--quiet); }
        .notes li.fresh { background: var(--good-ground); }
        .notes .text { flex: 1; padding: .125rem .375rem; overflow-wrap: anywhere; }
        .add { display: flex; gap: .375rem; margin-top: .25rem; }
        .add input { flex: 1; min-width: 0; }
        .board { margin-top: auto; padding-top: .5rem; }
        .board .notes { max-height: 6rem; }

        #tour { margin-top: .75rem; background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: .75rem 1rem; }
        #checks { margin: .5rem 0 0; padding: 0; list-style: none; font-size: .875rem; columns: 2; column-gap: 2rem; }
        #checks li { padding: .125rem 0 .125rem 1.5rem; text-indent: -1.5rem; break-inside: avoid; }
        #checks .held b { color: var(--good); }
        #checks .failed b, #verdict.failed { color: var(--bad); }
        #verdict { font-weight: 600; margin: .375rem 0 0; }
        #verdict:empty { display: none; }

        #steps { margin-top: .75rem; }
        #timeline { position: relative; display: flex; overflow-x: auto; background: var(--paper); border: 1px solid var(--line);
          border-radius: .75rem; margin-top: .25rem; }
        #timeline svg { flex: none; display: block; font-size: 11px; fill: var(--ink); }
        #timeline .lanes { position: sticky; left: 0; background: var(--paper); z-index: 1; border-right: 1px solid var(--line); font-size: 12px; }
        #timeline .lanes .relay { font-weight: 700; }
        .lane { stroke: var(--line); stroke-width: 1; }
        .lane.relay { stroke: var(--edge); stroke-width: 2; }
        .step { cursor: pointer; outline: none; color: var(--strong); }
        .step .hit { fill: transparent; }
        .step.looked-at .hit, .step:hover .hit { fill: var(--looked); }
        .step:focus-visible .hit { stroke: var(--strong); stroke-width: 3; }
        .step .arrow { stroke: currentColor; stroke-width: 2; fill: none; }
        .step .dot { fill: currentColor; }
        .step .ring { fill: var(--paper); stroke: currentColor; stroke-width: 2.5; }
        .step text { text-anchor: middle; fill: var(--quiet); }
        .step .word { fill: var(--ink); }
        .step.save, .step.delete { color: var(--ink); }
        .step.notice { color: var(--late); }
        .step.shows, .step.polled, .step.online { color: var(--good); }
        .step .time.delay { fill: var(--good); font-weight: 700; }
        .step.bad, .step.refused, .step.offline, .step.lost { color: var(--bad); }
        #detail { display: flex; flex-wrap: wrap; gap: 0 1rem; margin-top: .5rem; }
        #detail h3 { flex: 1 0 100%; margin: 0; }
        #detail > div { flex: 1 1 22rem; min-width: 0; }
        #detail pre { margin: 0; padding: .5rem .75rem; max-height: 20rem; overflow: auto; background: var(--paper);
          border: 1px solid var(--line); border-radius: .5rem; font: .75rem/1.4 ui-monospace, "Cascadia Mono", monospace;
          white-space: pre-wrap; overflow-wrap: anywhere; }

        body.alone { padding: 0; }
        body.alone #top, body.alone #steps, body.alone footer, body.alone #tour { display: none; }
        body.alone #panes { display: block; }
        body.alone #message:empty { display: none; }
        body.alone .pane { min-height: 100vh; border: 0; border-top: 6px solid var(--edge); border-radius: 0; font-size: 1.125rem; }
        body.alone .pane.live { border-top-color: var(--good); }
        body.alone .notes { max-height: none; }
        @media (max-width: 56rem) {
          #panes { grid-template-columns: minmax(0, 1fr); }
          .pane { min-height: 0; }
          #checks { columns: 1; }
        }
        @media (pointer: coarse) {
          button, input[type=text], .notes button, .notes input[type=text] { min-height: 2.75rem; }
          .notes button { min-width: 2.75rem; }
        }
        @media (prefers-reduced-motion: no-preference) {
          .notes li { transition: background-color 1.2s; }
        }

        """#
}
