// The view of one client: its notes, zones shared with it, the board, and its connection.

import { personClass, personName } from "./people.js";

/** Creates an element with properties and children. Strings become text nodes. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== "list" && key !== "role") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Formats the time since a moment of `performance.now()`. */
function ago(moment) {
  if (moment === undefined) return "none yet";
  const seconds = Math.floor((performance.now() - moment) / 1000);
  return seconds < 60 ? `${seconds} s ago` : `${Math.floor(seconds / 60)} min ago`;
}

export class Pane {
  /** @param {import("./client.js").Client} client @param {(error: unknown) => void} complain */
  constructor(client, complain) {
    this.client = client;
    this.complain = complain;
    this.sections = new Map();
    this.fresh = new Map();
    /** Whether the page shows this client only. */
    this.isAlone = false;
    /**
     * Returns the name of a zone's owner.
     * @type {((zone: any) => string | undefined) | undefined}
     */
    this.ownerName = undefined;
    this.#build();
    client.addEventListener("change", () => this.#soon());
    setInterval(() => this.#showFacts(), 1000);
    this.#soon();
  }

  #build() {
    const { client } = this;
    const person = personClass(client.user);
    const title = `${client.user}-${client.device}`;
    this.online = element("button", { className: "switch", role: "switch", type: "button" }, "Online");
    this.online.addEventListener("click", () => this.toggle());
    this.facts = {};
    const fact = (name, label) => {
      this.facts[name] = element("dd");
      return element("div", { className: name }, element("dt", {}, label), this.facts[name]);
    };
    this.trouble = element("p", { className: "trouble", role: "status" });
    this.zones = element("div", { className: "zones" });
    this.posts = element("ul", { className: "notes" });
    this.signIn = element("button", { className: "strong", hidden: true, type: "button" });
    this.signIn.addEventListener("click", () => this.#help());
    this.postCount = element("span", { className: "count" });
    const board = element("section", { className: "board", "aria-label": "Public board" },
      element("h3", {}, "Board ", this.postCount, element("span", { className: "badge" }, "public, polled")), this.posts,
      this.#form("Post to all", "Post", (text) => client.board.post(text).catch(this.complain)));
    this.root = element("section", { className: `pane ${person}`, id: title, "aria-labelledby": `${title}-title`, tabIndex: -1 },
      element("header", {},
        element("span", { className: "avatar", "aria-hidden": "true" }, personName(client.user).slice(0, 1)),
        element("h2", { id: `${title}-title` }, personName(client.user), element("span", {}, client.device)), this.online),
      element("dl", { className: "facts" }, fact("token", "token"), fact("pending", "pending"), fact("notice", "last notice")),
      element("div", { className: "help" }, this.trouble, this.signIn), this.zones, board);
  }

  #form(label, button, act) {
    const input = element("input", { type: "text", placeholder: label, "aria-label": `${label}, ${this.client.name}`, maxLength: 200 });
    const form = element("form", { className: "add" }, input, element("button", {}, button));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = input.value.trim();
      if (text) act(text);
      input.value = "";
    });
    return form;
  }

  toggle() {
    if (this.client.isOnline) this.client.goOffline();
    else this.client.goOnline();
  }

  focusAdd() { this.root.querySelector(".zone .add input")?.focus(); }

  #help() {
    if (this.client.isReplaced) this.client.takeOver();
    else this.client.signIn().catch(this.complain);
  }

  /** Highlights a note that came from another device for a moment. */
  mark(name) {
    this.fresh.set(name, performance.now());
    setTimeout(() => { this.fresh.delete(name); this.#soon(); }, 1500);
  }

  #soon() {
    if (this.isDue) return;
    this.isDue = true;
    // Animation frames do not run while the page is in the background.
    setTimeout(() => { this.isDue = false; this.#show(); }, 0);
  }

  #show() {
    const { client } = this;
    this.root.classList.toggle("live", Boolean(client.isLive));
    this.root.classList.toggle("offline", !client.isOnline);
    this.online.setAttribute("aria-checked", String(client.isOnline));
    this.online.textContent = client.isOnline ? "Online" : "Offline";
    this.online.setAttribute("aria-label", `${client.name} online`);
    const trouble = client.needsSignIn ? `Sign in as ${personName(client.user)} to use this device.` : client.trouble ?? "";
    if (this.trouble.textContent !== trouble) this.trouble.textContent = trouble;
    this.signIn.hidden = !client.needsSignIn && !client.isReplaced;
    this.signIn.textContent = client.isReplaced ? "Continue here" : "Sign in";
    this.#showFacts();
    const zones = [["Notes", "Notes", "private", client.user]];
    for (const zone of client.sharedZones) {
      const user = this.ownerName?.(zone);
      const owner = zone.share?.owner?.userIdentity?.nameComponents?.givenName ?? (user ? personName(user) : "another user");
      zones.push([zone.key, `Notes of ${owner}`, client.isReadOnly(zone.key) ? "shared, read-only" : "shared, read-write",
        user ?? owner]);
    }
    for (const [key, section] of this.sections) {
      if (zones.some(([known]) => known === key)) continue;
      section.root.remove();
      this.sections.delete(key);
    }
    for (const [key, title, badge, owner] of zones) this.#showZone(key, title, badge, owner);
    this.#list(this.posts, client.board.shown, (post) => post.name, (post) => {
      const item = element("li", {}, element("span", { className: "text" }), element("button", { type: "button" }, "✕"));
      item.lastChild.addEventListener("click", () =>
        client.board.post(item.dataset.text, { name: post.name, isGone: true }).catch(this.complain));
      return item;
    }, (item, post) => {
      item.dataset.text = post.text;
      item.firstChild.replaceChildren(`${post.text} `,
        element("span", { className: `author ${personClass(post.author)}` }, personName(post.author)));
      item.lastChild.hidden = post.author !== client.user;
      item.lastChild.setAttribute("aria-label", `Delete “${post.text}”`);
    });
  }

  #showFacts() {
    const { client } = this;
    this.postCount.textContent = String(client.board.shown.length);
    this.facts.token.textContent = [client.token(), ...client.sharedZones.map((zone) => client.token(zone.key))].join(", ");
    this.facts.pending.textContent = String(client.pending);
    this.facts.pending.parentElement.classList.toggle("some", client.pending > 0);
    this.facts.notice.textContent = ago(client.lastNotice);
  }

  #showZone(key, title, badge, owner) {
    let section = this.sections.get(key);
    if (!section) {
      const list = element("ul", { className: "notes" });
      const name = element("span");
      const mark = element("span", { className: "badge" });
      const count = element("span", { className: "count" });
      const none = element("p", { className: "none quiet" }, "No notes yet.");
      const form = this.#form("Type a note, press Enter", "Add", (text) => this.client.add(text, { zone: key }));
      const root = element("section", { className: "zone" }, element("h3", {}, name, count, mark), none, list, form);
      section = { list, name, mark, count, none, root };
      this.sections.set(key, section);
      this.zones.append(section.root);
    }
    section.name.textContent = title;
    section.mark.textContent = badge;
    section.mark.classList.toggle("locked", badge.endsWith("read-only"));
    section.list.setAttribute("aria-label", `${title} on ${this.client.name}`);
    const notes = this.client.notes(key);
    section.root.className = `zone ${personClass(owner)}`;
    section.count.textContent = String(notes.length);
    section.count.setAttribute("aria-label", notes.length === 1 ? "1 note" : `${notes.length} notes`);
    section.none.hidden = notes.length > 0;
    this.#list(section.list, notes, (note) => note.name, (note) => this.#note(key, note.name),
      (item, note) => this.#showNote(item, note));
  }

  #note(zone, name) {
    const { client } = this;
    const done = element("input", { type: "checkbox" });
    const title = element("input", { type: "text", maxLength: 200 });
    const remove = element("button", { type: "button" }, "✕");
    done.addEventListener("change", () => client.change(name, { done: done.checked }, zone));
    title.addEventListener("change", () => client.change(name, { title: title.value }, zone));
    title.addEventListener("keydown", (event) => { if (event.key === "Enter") title.blur(); });
    remove.addEventListener("click", () => client.remove(name, zone));
    return element("li", {}, done, title, remove);
  }

  #showNote(item, note) {
    const [done, title, remove] = item.children;
    done.checked = note.done;
    done.setAttribute("aria-label", `Done: ${note.title}`);
    // Do not overwrite a text that the user is editing.
    if (document.activeElement !== title || title.value === item.dataset.title) title.value = note.title;
    item.dataset.title = note.title;
    title.setAttribute("aria-label", `Note ${note.title}`);
    remove.setAttribute("aria-label", `Delete ${note.title}`);
    item.classList.toggle("done", note.done);
    item.classList.toggle("pending", note.isPending);
    item.classList.toggle("fresh", this.fresh.has(note.name));
  }

  /** Updates a list to show `values`. Reuses existing items, which keeps the focus. */
  #list(list, values, keyOf, make, show) {
    const known = new Map([...list.children].map((item) => [item.dataset.key, item]));
    /** @type {any} */ let added;
    values.forEach((value, index) => {
      const key = keyOf(value);
      const item = known.get(key) ?? make(value);
      if (!known.has(key)) added = item;
      known.delete(key);
      item.dataset.key = key;
      show(item, value);
      if (list.children[index] !== item) list.insertBefore(item, list.children[index] ?? null);
    });
    for (const item of known.values()) item.remove();
    if (!added) return;
    // Scrolls the list, but not the page, to a new item.
    if (list.scrollHeight > list.clientHeight) list.scrollTop = added.offsetTop - list.offsetTop - list.clientHeight / 2;
    else if (this.isAlone) added.scrollIntoView({ block: "nearest" });
  }
}
