// The frame around the pages: container and environment on top, navigation on the left, one page in the middle.
//
// The address contains the whole state, so users can bookmark and share a page: `#/CONTAINER/ENVIRONMENT/PAGE?PARAMETERS`.

import { isProduction, place, post } from "./api.js";
import { button, complain, dialog, field, fill, guarded, h, loading, say, select } from "./dom.js";
import { passkeyList } from "./passkeys.js";
import { passwordForm, signIn, signOut } from "./signin.js";
import { sections } from "./sections.js";

/** Sorts the relay's own containers, such as the one of `doctor`, after those of apps. */
const inOrder = (containers) => [
  ...containers.filter(({ name }) => !name.startsWith("_")), ...containers.filter(({ name }) => name.startsWith("_")),
];

/**
 * Decodes a part of an address. Returns it unchanged if it is malformed.
 * @param {string} part
 */
const decoded = (part) => { try { return decodeURIComponent(part); } catch { return part; } };

export class Shell {
  /**
   * @param {Element} app
   * @param {{ name: string, version: string, isDev: boolean, data: string, containers: { name: string }[] }} welcome
   */
  constructor(app, welcome) {
    this.app = app;
    this.welcome = { ...welcome, containers: inOrder(welcome.containers) };
    this.main = h("main", { id: "main", tabindex: -1 });
    this.pages = sections.flatMap((section) => section.pages);
    /**
     * Aborts the requests and timers of the current page.
     * @type {AbortController | undefined}
     */
    this.life = undefined;
    /** The input that the key `/` focuses. */ this.search = undefined;
  }

  start() {
    this.onHash = () => this.show();
    this.onKey = (event) => this.key(event);
    addEventListener("hashchange", this.onHash);
    addEventListener("keydown", this.onKey);
    const [container, environment, page] = this.address();
    place.container = this.welcome.containers.some(({ name }) => name === container) ? container
      : this.welcome.containers[0]?.name ?? "";
    place.environment = environment === "production" ? "production" : "development";
    this.frame();
    if (!place.container) return this.firstContainer();
    if (!page) return this.go("overview");
    this.show();
  }

  stop() {
    this.life?.abort();
    removeEventListener("hashchange", this.onHash);
    removeEventListener("keydown", this.onKey);
  }

  // Addresses

  /** @returns {[string, string, string, URLSearchParams]} */
  address() {
    const [path, query = ""] = location.hash.slice(1).split("?");
    const [, container = "", environment = "", page = ""] = path.split("/").map(decoded);
    return [container, environment, page, new URLSearchParams(query)];
  }

  /**
   * Returns the address of a page.
   * @param {string} page
   * @param {Record<string, string>} [parameters]
   */
  link(page, parameters = {}) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
    return `#/${encodeURIComponent(place.container)}/${place.environment}/${page}${query ? `?${query}` : ""}`;
  }

  go(page, parameters) {
    const link = this.link(page, parameters);
    if (location.hash === link) this.show(); else location.hash = link;
  }

  /** Returns the values for a page's command, including the data folder and the relay's address. */
  where() { return { ...place, data: this.welcome.data, url: new URL("..", location.href).href.replace(/\/$/, "") }; }

  // The frame

  frame() {
    document.body.className = isProduction() ? "production" : "development";
    const containers = select(this.welcome.containers.map(({ name }) => name), place.container, {
      id: "container", "aria-label": "Container",
      onchange: () => { place.container = containers.value; this.go(this.page?.id ?? "overview"); this.frame(); },
    });
    const environments = select([["development", "Development"], ["production", "Production"]], place.environment, {
      id: "environment", "aria-label": "Environment",
      onchange: () => { place.environment = environments.value; this.frame(); this.go(this.page?.id ?? "overview"); },
    });
    this.nav = h("nav", { id: "nav", "aria-label": "Sections" });
    const menu = button("☰", () => {
      const isOpen = this.nav.classList.toggle("open");
      menu.setAttribute("aria-expanded", String(isOpen));
    }, { class: "plain menu", "aria-label": "Sections", "aria-expanded": "false", "aria-controls": "nav" });
    fill(this.app,
      h("a.skip", { href: "#main", onclick: (event) => { event.preventDefault(); this.main.focus(); } }, "Skip to the page"),
      h("header", { id: "top" }, menu,
        h("span.brand", null, h("span.mark", { "aria-hidden": "true" }), h("span.words", null, "Zonecast Console")),
        h("div.place", null, containers, environments,
          button("+", () => this.newContainer(), { class: "plain", "aria-label": "Create container", title: "Create container" })),
        isProduction() && h("strong.warning", null, "Production"),
        this.welcome.isDev && h("span.badge", { title: "The relay runs with --dev" }, "dev relay"),
        button(this.welcome.name, () => this.self(), { class: "plain who", title: "Your account" })),
      h("div", { id: "body" }, this.nav, this.main));
    fill(this.nav, sections.map((section) => [
      h("h2", null, section.title),
      h("ul", null, section.pages.map((page) => h("li", null, h("a", {
        href: this.link(page.id), data: { page: page.id }, onclick: () => this.nav.classList.remove("open"),
      }, page.title)))),
    ]));
    this.mark();
  }

  mark() {
    for (const link of this.nav.querySelectorAll("a")) {
      if (link.dataset.page === this.page?.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  /**
   * Returns an error message if the address names an unknown container, environment or page.
   * @returns {string | undefined}
   */
  stranger() {
    const [container, environment, page] = this.address();
    if (container && !this.welcome.containers.some(({ name }) => name === container)) return `There is no container ${container} on this relay.`;
    if (environment && environment !== "development" && environment !== "production") return `There is no environment ${environment}, only development and production.`;
    if (page && !this.pages.some(({ id }) => id === page)) return `The console has no page ${page}.`;
  }

  async show() {
    const stranger = this.stranger();
    if (stranger) return this.nothing(stranger);
    const [container, environment, name, parameters] = this.address();
    const isElsewhere = container !== place.container || environment !== place.environment;
    if (container && isElsewhere && this.welcome.containers.some((one) => one.name === container)) {
      place.container = container;
      place.environment = environment === "production" ? "production" : "development";
      this.frame();
    }
    const page = this.pages.find(({ id }) => id === name) ?? this.pages[0];
    this.life?.abort();
    this.life = new AbortController();
    this.page = page;
    this.search = undefined;
    this.mark();
    document.title = `${page.title} · ${place.container} · Zonecast Console`;
    const body = h("div.page", { data: { page: page.id } });
    const cli = h("p.cli", null);
    fill(body, loading());
    fill(this.main, h("div.title", null, h("h1", null, page.title), h("p.quiet", null, page.about)), body, cli);
    if (page.command) {
      fill(cli, "Command: ", h("code", null, `zonecast ${page.command(this.where())}`));
    }
    document.body.dataset.ready = "";
    try { await page.show(body, { shell: this, parameters, signal: this.life.signal }); } catch (error) {
      if (error.code === "signIn") return;
      fill(body, h("p.trouble", { role: "alert" }, error.message),
        button("Retry", () => this.show()));
    }
    if (this.page === page) document.body.dataset.ready = page.id;
  }

  /**
   * Shows an error instead of a page. A default page could be mistaken for the requested one.
   * @param {string} words
   */
  nothing(words) {
    this.life?.abort();
    this.page = undefined;
    this.mark();
    document.title = "Not found · Zonecast Console";
    fill(this.main, h("div.title", null, h("h1", null, "Not found")), h("p.trouble", { role: "alert" }, words),
      h("p", null, h("a", { href: this.link("overview") }, `Overview of ${place.container}`)));
    document.body.dataset.ready = "none";
  }

  /**
   * Repeats an action while the page is open and visible.
   * @param {AbortSignal} signal
   */
  every(milliseconds, signal, act) {
    let isAway = false;
    const timer = setInterval(async () => {
      if (document.hidden || signal.aborted) return;
      try {
        await act();
        if (isAway) say("The relay answers again.");
        isAway = false;
      } catch (error) {
        if (signal.aborted) return;
        if (!isAway) complain(error);
        // A restarting relay is unreachable for a moment, and a proxy answers 5xx meanwhile. Keep trying in both cases.
        isAway = error.code === "offline" || error.status >= 500;
        if (!isAway) clearInterval(timer);
      }
    }, milliseconds);
    signal.addEventListener("abort", () => clearInterval(timer));
  }

  // Containers and the operator's account

  /**
   * Updates the list of containers: a relay in `--dev` creates containers on first use.
   * @param {string[]} names
   */
  learn(names) {
    if (names.length === this.welcome.containers.length) return;
    this.welcome.containers = inOrder(names.map((name) => ({ name })));
    this.frame();
  }

  firstContainer() {
    fill(this.main, h("div.title", null, h("h1", null, "No containers yet")),
      h("p", null, "A container holds one app's data, in development and in production."),
      button("Create the first container", () => this.newContainer(), { class: "strong" }));
    document.body.dataset.ready = "none";
  }

  async newContainer() {
    const name = await dialog("Create container", (done) => {
      const input = h("input", { type: "text", required: true, placeholder: "iCloud.org.example.notes", spellcheck: "false" });
      return h("form", { onsubmit: guarded(async (event) => {
        event.preventDefault();
        await post("containers/add", { id: input.value.trim() });
        done(input.value.trim());
      }) }, field("Name", input, "As at Apple: iCloud. and a reverse domain name. It cannot be changed later."),
      h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
    });
    if (!name) return;
    this.welcome.containers.push({ name });
    place.container = name;
    place.environment = "development";
    say(`${name} is created.`);
    this.frame();
    this.go("overview");
  }

  self() {
    return dialog(this.welcome.name, (done) => [
      h("p.quiet", null, `You are an operator of this relay (zonecast ${this.welcome.version}).`),
      h("h3", null, "Change password"), passwordForm((value) => { done(value); say("Your password is changed."); }),
      h("h3", null, "Passkeys"), passkeyList(),
      h("h3", null, "Sign out"),
      button("Sign out", () => signOut(() => {
        done();
        this.stop();
        location.hash = "";
        signIn(this.app, (welcome) => new Shell(this.app, welcome).start());
      })),
    ]);
  }

  // Keys

  key(event) {
    const target = event.target;
    const isTyping = target.matches?.("input, textarea, select, [contenteditable]");
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping || document.querySelector("dialog[open]")) return;
    if (event.key === "/" && this.search) {
      event.preventDefault();
      this.search.focus();
    } else if (event.key === "?") {
      this.help();
    } else if (event.timeStamp < this.goingUntil) {
      this.goingUntil = 0;
      const page = this.pages.find(({ key }) => key === event.key);
      if (page) this.go(page.id);
    } else if (event.key === "g") {
      // Compare the events' times. A timer started by an earlier "g" would cancel this one.
      this.goingUntil = event.timeStamp + 1_500;
    }
  }

  help() {
    return dialog("Keyboard shortcuts", () => [
      h("dl.keys", null,
        h("dt", null, h("kbd", null, "/")), h("dd", null, "search on this page"),
        h("dt", null, h("kbd", null, "?")), h("dd", null, "this help"),
        h("dt", null, h("kbd", null, "Esc")), h("dd", null, "close a dialog"),
        this.pages.filter(({ key }) => key).map((page) => [
          h("dt", null, h("kbd", null, "g"), " ", h("kbd", null, page.key)), h("dd", null, page.title),
        ])),
    ]);
  }
}
