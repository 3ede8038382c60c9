extension DemoPages {
    /// The last part of `/zonecast.js`: notices.
    static let noticesModule = #"""

        /**
         * What to do when a notice socket has closed; a pure function.
         * @param {number} code The close code.
         * @param {number} attempt How many connections have failed one after the other.
         * @param {number | undefined} promised Seconds, as the relay's goodbye said.
         * @param {number} chance 0 up to 1.
         * @returns {{ action: "reconnect" | "renew" | "stop", delay: number }} `delay` in milliseconds.
         */
        export function afterClose(code, attempt, promised, chance) {
          // Half a second doubling to a minute, and any part of it.
          const backoff = Math.min(60_000, 500 * 2 ** Math.min(attempt, 10)) * chance;
          if (code >= 4400 && code <= 4449) return { action: "stop", delay: 0 };
          if (code === 4450) return { action: "renew", delay: backoff };
          // What we sent was not to be understood: sending it again soon would not help.
          if ([1002, 1007, 1008, 1009].includes(code)) return { action: "reconnect", delay: Math.max(60_000, backoff) };
          if (promised !== undefined) return { action: "reconnect", delay: promised * 1000 * (1 + chance / 4) };
          return { action: "reconnect", delay: backoff };
        }

        /**
         * Hears that something has changed, over a WebSocket that is kept up for as long as it is wanted.
         *
         * Events: `ready` and `notice` (`detail` is the frame's content), `down` (`detail`: code, reason, delay until the next try
         * in milliseconds, or `isFinal`). A notice is a hint: fetch with the token you have. Whatever happened while there was no
         * connection is told right after `ready`, since each hello says how far one has come.
         */
        export class Notices extends EventTarget {
          /**
           * @param {Container} container
           * @param {() => { private?: string, shared?: string }} since The database tokens that are fully applied.
           */
          constructor(container, since) {
            super();
            this.container = container;
            this.since = since;
            this.isLive = false;
            /** @type {WebSocket | undefined} */ this.socket = undefined;
            this.attempt = 0;
            this.retry = () => this.#retryNow();
          }

          start() {
            if (this.isWanted) return;
            this.isWanted = true;
            globalThis.addEventListener?.("online", this.retry);
            this.#connect();
          }

          stop() {
            this.isWanted = false;
            this.isLive = false;
            globalThis.removeEventListener?.("online", this.retry);
            clearTimeout(this.timer);
            clearTimeout(this.watch);
            this.socket?.close(1000);
            this.socket = undefined;
          }

          /** There is a network again: no reason to wait out a pause. */
          #retryNow() {
            if (!this.isWanted || this.socket) return;
            clearTimeout(this.timer);
            this.#connect();
          }

          #connect() {
            const { url, name, environment } = this.container;
            const address = `${url.replace(/^http/, "ws")}/push/1/${encodeURIComponent(name)}/${environment}`;
            const socket = new WebSocket(address, "zonecast.notices.1");
            this.socket = socket;
            const turn = this.container.turns;
            let promised;
            let healthy;
            // To a connection and from a hello to its answer.
            const patience = setTimeout(() => socket.close(), 10_000);
            socket.onopen = () => socket.send(JSON.stringify({ hello: this.#hello() }));
            socket.onmessage = (event) => {
              const frame = JSON.parse(event.data);
              this.#expectMore(socket);
              if (frame.ready) {
                clearTimeout(patience);
                healthy = setTimeout(() => { this.attempt = 0; }, 60_000);
                this.isLive = true;
                this.#tell("ready", frame.ready);
              } else if (frame.notice) {
                this.#tell("notice", frame.notice);
              } else if (frame.renewed) {
                this.container.renew(frame.renewed.ckWebAuthToken, turn);
              } else if (frame.goodbye) {
                promised = frame.goodbye.retryAfter;
              }
            };
            socket.onclose = (event) => {
              clearTimeout(patience);
              clearTimeout(healthy);
              clearTimeout(this.watch);
              if (this.socket !== socket) return;
              this.socket = undefined;
              this.isLive = false;
              this.#closed(event, promised);
            };
          }

          #hello() {
            const { deviceID, apiToken: ckAPIToken, webAuthToken: ckWebAuthToken } = this.container;
            return { deviceID, ckAPIToken, ckWebAuthToken, since: this.since() };
          }

          /** A half-open socket looks healthy from inside; a frame that nobody acknowledges ends it. */
          #expectMore(socket) {
            clearTimeout(this.watch);
            this.watch = setTimeout(() => {
              if (socket.readyState !== WebSocket.OPEN) return;
              socket.send(JSON.stringify({ seen: this.since() }));
              this.#expectMore(socket);
            }, 45_000);
          }

          #closed({ code, reason }, promised) {
            const next = afterClose(code, this.attempt, promised, Math.random());
            this.attempt += 1;
            if (next.action === "stop") {
              this.isWanted = false;
              globalThis.removeEventListener?.("online", this.retry);
              return this.#tell("down", { code, reason, isFinal: true });
            }
            this.#tell("down", { code, reason, delay: next.delay });
            this.timer = setTimeout(async () => {
              // Any call brings a fresh token.
              if (next.action === "renew") await this.container.currentUser().catch(() => {});
              if (this.isWanted && !this.socket) this.#connect();
            }, next.delay);
          }

          #tell(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }
        }

        """#
}
