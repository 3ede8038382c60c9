extension ConsoleFiles {
    /// What the console looks like: light and dark, wide and narrow, development and production.
    static let style = #"""
        :root {
          color-scheme: light dark;
          --ground: #f5f6f8; --sheet: #ffffff; --raised: #ffffff; --ink: #1b1f26; --quiet: #5c6672; --line: #d9dee5;
          --accent: #2456c8; --accent-ink: #ffffff; --accent-soft: #e6edfb; --good: #1c7a3f; --bad: #b3261e; --bad-soft: #fbe9e7;
          --warn: #b45309; --warn-soft: #fdf0dc; --bar: #22303f; --bar-ink: #f2f5f8; --code: #eef1f5; --shadow: 0 8px 30px #0003;
          --radius: 7px; --gap: 1rem; --series-1: #2456c8; --series-2: #b45309; --series-3: #1c7a3f;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #14181d; --sheet: #1b2027; --raised: #232a33; --ink: #e8ecf1; --quiet: #9aa6b4; --line: #323b46;
            --accent: #7ea6ff; --accent-ink: #0d1420; --accent-soft: #223150; --good: #6fd394; --bad: #ff9b92; --bad-soft: #45221f;
            --warn: #f0b35a; --warn-soft: #40300f; --bar: #0d1116; --bar-ink: #e8ecf1; --code: #262e38; --shadow: 0 8px 30px #000a;
            --series-1: #7ea6ff; --series-2: #f0b35a; --series-3: #6fd394;
          }
        }
        * { box-sizing: border-box; }
        html { scrollbar-gutter: stable; scrollbar-color: var(--line) transparent; }
        body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
        h1 { font-size: 1.45rem; margin: 0; } h2 { font-size: 1.05rem; margin: 1.4rem 0 .5rem; } h3 { font-size: .95rem; margin: 1.1rem 0 .4rem; }
        p { margin: .5rem 0; } a { color: var(--accent); } small, .quiet { color: var(--quiet); }
        code, pre, kbd, .mono { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .87em; }
        code, kbd { background: var(--code); border-radius: 4px; padding: .1em .35em; overflow-wrap: anywhere; }
        pre { background: var(--code); border-radius: var(--radius); padding: .7rem .8rem; margin: .4rem 0; overflow: auto; max-height: 28rem; white-space: pre; }
        kbd { border: 1px solid var(--line); }
        :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
        [hidden] { display: none !important; }
        .hidden, .skip { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
        .skip:focus { width: auto; height: auto; clip-path: none; background: var(--sheet); padding: .5rem; z-index: 9; }

        #top { display: flex; align-items: center; gap: .8rem; background: var(--bar); color: var(--bar-ink); padding: .5rem .9rem; position: sticky; top: 0; z-index: 5; border-bottom: 4px solid transparent; }
        .production #top { background: #7a1710; border-bottom-color: #ff8a3c; }
        .brand { font-weight: 650; display: flex; align-items: center; gap: .5rem; white-space: nowrap; }
        .mark { width: 1.05em; height: 1.05em; border-radius: 50%; border: 3px solid currentColor; border-right-color: transparent; display: inline-block; }
        .place { display: flex; gap: .4rem; flex: 1; min-width: 0; }
        #top select { background: #ffffff1c; color: inherit; border-color: #ffffff3d; max-width: 22rem; min-width: 0; }
        #top select option { color: var(--ink); background: var(--sheet); }
        #top .plain { color: inherit; } .menu { display: none; } .who { overflow: hidden; text-overflow: ellipsis; max-width: 14rem; white-space: nowrap; }
        .warning { background: #ff8a3c; color: #3a0a00; padding: .15rem .6rem; border-radius: 99px; font-size: .8rem; text-transform: uppercase; letter-spacing: .05em; }
        #body { display: grid; grid-template-columns: 13.5rem minmax(0, 1fr); align-items: start; }
        nav { scrollbar-width: thin; padding: .2rem .5rem 1rem; position: sticky; top: 3.3rem; max-height: calc(100vh - 3.3rem); overflow: auto; }
        nav h2 { font-size: .72rem; text-transform: uppercase; letter-spacing: .06em; color: var(--quiet); margin: .6rem .6rem .15rem; }
        nav ul { list-style: none; margin: 0; padding: 0; }
        nav a { display: block; padding: .16rem .6rem; font-size: .95em; border-radius: var(--radius); text-decoration: none; color: var(--ink); }
        nav a:hover { background: var(--accent-soft); } nav a[aria-current] { background: var(--accent); color: var(--accent-ink); }
        main { padding: 1.2rem 1.4rem 4rem; outline: none; min-width: 0; } .title { margin-bottom: .9rem; } .title p { margin: .2rem 0 0; max-width: 60rem; }
        .cli { margin-top: 2rem; border-top: 1px solid var(--line); padding-top: .7rem; color: var(--quiet); font-size: .9em; } .cli:empty { display: none; }

        button, input, select, textarea { font: inherit; color: inherit; background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); padding: .35rem .6rem; }
        button { cursor: pointer; } button:hover:not(:disabled) { border-color: var(--accent); } button:disabled { opacity: .55; cursor: default; }
        button.strong { background: var(--accent); color: var(--accent-ink); border-color: var(--accent); }
        button.danger { color: var(--bad); border-color: var(--bad); } button.plain { background: none; border-color: transparent; }
        button.small { padding: .12rem .45rem; font-size: .88em; }
        button[aria-pressed=true] { background: var(--accent-soft); border-color: var(--accent); }
        input[type=checkbox], input[type=radio] { padding: 0; width: auto; } textarea { width: 100%; min-height: 2.2rem; font-family: ui-monospace, monospace; font-size: .87em; }
        .field { display: grid; gap: .2rem; margin: .5rem 0; } .field > span { font-size: .86em; color: var(--quiet); } .field input, .field select { width: 100%; }
        .check { display: inline-flex; gap: .35rem; align-items: center; margin-right: .8rem; }
        .row { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end; } .row .field { margin: 0; } .tokens { margin-top: .5rem; } .row .grow { flex: 1; min-width: 12rem; }
        .actions { display: flex; flex-wrap: wrap; gap: .5rem; justify-content: flex-end; margin-top: .9rem; } .actions.left { justify-content: flex-start; }
        .bar { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: .6rem 0; }

        .cards { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(8.4rem, 1fr)); }
        .card, .panel { background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); padding: .8rem .95rem; }
        .card b { display: block; font-size: 1.4rem; font-weight: 600; line-height: 1.25; } .card span { color: var(--quiet); font-size: .86em; }
        .panel { margin: .8rem 0; } .panel > h2:first-child, .panel > h3:first-child { margin-top: 0; } .two { display: grid; gap: 0 1rem; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); align-items: start; }
        .scroll { overflow-x: auto; background: var(--sheet); border: 1px solid var(--line); border-radius: var(--radius); margin: .5rem 0; }
        table { border-collapse: collapse; width: 100%; font-size: .92em; } th, td { text-align: left; padding: .38rem .7rem; border-bottom: 1px solid var(--line); vertical-align: baseline; }
        th { font-weight: 600; color: var(--quiet); font-size: .84em; white-space: nowrap; } tbody tr:last-child td { border-bottom: 0; } tbody tr:hover { background: var(--accent-soft); }
        td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } td, td button { white-space: nowrap; } th.mono { font: inherit; font-size: .84em; font-weight: 600; } td.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 10rem; } td.wide { min-width: 20rem; }
        td button.plain { padding: 0; border: 0; color: var(--accent); text-decoration: underline; text-underline-offset: .15em; } .bar a[aria-current=true] { color: inherit; font-weight: 600; text-decoration: none; }
        td.name { max-width: 20rem; overflow: hidden; text-overflow: ellipsis; } .strip { width: 7.5rem; height: 1.15rem; display: block; } .strip rect { fill: var(--good); opacity: .55; } .strip rect.bad { fill: var(--bad); opacity: 1; }
        tr.gone { color: var(--quiet); text-decoration: line-through; } tr.new { animation: arrive 1.6s ease-out; } tr.bad td { background: var(--bad-soft); } tr.off { color: var(--quiet); }
        @keyframes arrive { from { background: var(--warn-soft); } } @media (prefers-reduced-motion: reduce) { tr.new { animation: none; } }
        .empty { color: var(--quiet); border: 1px dashed var(--line); border-radius: var(--radius); padding: 1.2rem; text-align: center; }
        .badge { display: inline-block; border: 1px solid currentColor; border-radius: 99px; padding: 0 .5rem; font-size: .78rem; white-space: nowrap; color: var(--quiet); }
        #top .badge { color: inherit; } .badge.good { color: var(--good); } .badge.bad { color: var(--bad); } .badge.warn { color: var(--warn); } .badge.accent { color: var(--accent); }
        .trouble { background: var(--bad-soft); color: var(--bad); border-radius: var(--radius); padding: .55rem .8rem; } .note { background: var(--warn-soft); color: var(--warn); border-radius: var(--radius); padding: .55rem .8rem; }
        .steps { list-style: none; padding: 0; margin: 0; } .steps li { padding: .25rem 0; } .steps .done { color: var(--quiet); }
        .copyable { position: relative; } .copyable button { position: absolute; top: .35rem; right: .35rem; padding: .1rem .5rem; font-size: .85em; }
        .copyable pre { padding-right: 5rem; white-space: pre-wrap; overflow-wrap: anywhere; }
        .facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .25rem 1rem; margin: .4rem 0; } .facts dt { color: var(--quiet); } .facts dd { margin: 0; overflow-wrap: anywhere; }
        .keys { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; } .keys dd { margin: 0; }
        .added { color: var(--good); } .removed { color: var(--bad); } .changed { color: var(--warn); }
        .meter { height: .5rem; border-radius: 99px; border: 1px solid var(--line); background: var(--code); overflow: hidden; display: block; width: 100%; min-width: 6rem; }
        .chart { width: 100%; height: auto; display: block; } .chart .axis { stroke: var(--line); } .chart .label { fill: var(--quiet); font-size: 10px; }
        .chart .line { fill: none; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; } .chart .one { stroke: var(--series-1); } .chart .second { stroke: var(--series-2); } .chart .third { stroke: var(--series-3); }
        .legend { display: flex; gap: 1rem; font-size: .85em; color: var(--quiet); } .legend i { display: inline-block; width: 1rem; height: 0; border-top: 3px solid; margin-right: .35rem; vertical-align: middle; } .legend .one { color: var(--series-1); } .legend .second { color: var(--series-2); } .legend .third { color: var(--series-3); }
        .thumb { max-width: 12rem; max-height: 8rem; border: 1px solid var(--line); border-radius: var(--radius); display: block; }

        dialog { background: var(--raised); color: var(--ink); border: 1px solid var(--line); border-radius: 10px; box-shadow: var(--shadow); padding: 0 1.2rem 1.2rem; width: min(46rem, calc(100vw - 2rem)); max-height: calc(100vh - 3rem); }
        dialog::backdrop { background: #0007; } dialog > header { display: flex; justify-content: space-between; align-items: center; position: sticky; top: 0; background: inherit; padding: .8rem 0 .3rem; z-index: 1; } dialog h2 { margin: 0; overflow-wrap: anywhere; }
        dialog.production { border: 3px solid #ff8a3c; }
        #toasts { position: fixed; right: 1rem; bottom: 1rem; display: grid; gap: .5rem; z-index: 20; max-width: min(28rem, calc(100vw - 2rem)); }
        .toast { background: var(--bar); color: var(--bar-ink); padding: .5rem .8rem; border-radius: var(--radius); box-shadow: var(--shadow); margin: 0; display: flex; gap: .8rem; justify-content: space-between; align-items: center; } .toast.bad { background: #8c1d18; color: #fff; } .toast button { background: none; border: 0; color: inherit; padding: 0 .2rem; }
        .door { max-width: 25rem; margin: 9vh auto; background: var(--sheet); border: 1px solid var(--line); border-radius: 12px; padding: 1.6rem 1.8rem; } .door .brand { color: var(--quiet); } .door h1 { margin: .3rem 0 .8rem; } .door button.strong { width: 100%; padding: .5rem; }

        @media (max-width: 46rem) {
          #body { grid-template-columns: minmax(0, 1fr); } #top { flex-wrap: wrap; gap: .4rem; padding: .4rem .6rem; position: static; } .menu { display: block; font-size: 1.1rem; } .brand .words, #top .badge { display: none; } .who { max-width: 10rem; } .place { order: 5; flex-basis: 100%; } #top select { flex: 1; }
          nav { display: none; position: static; max-height: none; background: var(--sheet); border-bottom: 1px solid var(--line); } nav.open { display: block; columns: 2; } nav h2 { break-after: avoid; } nav ul { break-inside: avoid; }
          td.name { max-width: 11rem; } td.wrap { min-width: 15rem; } main { padding: .9rem .8rem 4rem; } .facts { grid-template-columns: 1fr; } .facts dd { margin-bottom: .4rem; } .two { grid-template-columns: minmax(0, 1fr); } .brand { flex: 1; }
        }

        """#
}
