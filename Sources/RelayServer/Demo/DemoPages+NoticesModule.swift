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
          // At least half a second, so that a relay that promises to be back at once does not cause a tight loop.
          if (promised !== undefined) return { action: "reconnect", delay: Math.max(500, promised * 1000) * (1 + chance / 4) };
          return { action: "reconnect", delay: backoff };
        }

        /** Limit for connecting, and from the hello to its answer. In milliseconds, like the constants below. */
        const PATIENCE = 10_000;
        /** After this long without a frame the client sends a ping, since a half-open socket looks healthy. */
        const SILENCE = 45_000;
        /** Limit from a ping to the next frame. */
        const PONG_PATIENCE = 15_000;
        /** The end of a connection that lasted this long resets the back-off. */
        const HEALTHY = 60_000;

        /**
         * The state machine of a notice connection, without a socket and a clock. The SDK's `NoticeLine` follows the same table.
         *
         *     resting -> connecting --opened--> greeting --ready--> live --closed--> resting …
         *        any --4400…4449--> parked --credentialsChanged--> connecting
         *
         * Events: `started`, `opened`, `ready`, `heard` (any frame at all), `goodbye` (value: seconds until the relay is back),
         * `closed` (value: close code; `undefined` when the socket was cut), `credentialsChanged`, `networkReturned` (also: the page
         * is shown again), `timerFired`, `stopped`.
         *
         * Effects, in their order: `connect`, `sendHello`, `ping`, `drop` (give the socket up), `wake` (value: milliseconds until
         * `timerFired`, instead of any wake before; `undefined`: none), `live` (value: whether notices come from now on) and
         * `needsCredentials` (the relay will not have these; value: whether fresh ones of the same user will do).
         */
        export class NoticeLine {
          /** @type {"stopped" | "connecting" | "greeting" | "live" | "resting" | "parked"} */
          state = "stopped";
          #failures = 0;
          #liveSince = 0;
          #isPinging = false;
          /** @type {number | undefined} */ #promised = undefined;
          #hasNewCredentials = false;

          /**
           * @param {string} event
           * @param {any} value
           * @param {number} now Milliseconds since any fixed moment.
           * @param {number} chance 0 up to 1.
           * @returns {any[][]}
           */
          handle(event, value, now, chance) {
            switch (event) {
              case "started": return this.state === "stopped" ? this.#connect() : [];
              case "opened":
                if (this.state !== "connecting") return [];
                this.state = "greeting";
                return [["sendHello"], ["wake", PATIENCE]];
              case "ready":
                if (this.state !== "greeting") return [];
                this.state = "live";
                this.#liveSince = now;
                return [["live", true], ["wake", SILENCE]];
              case "heard":
                if (this.state !== "live") return [];
                this.#isPinging = false;
                return [["wake", SILENCE]];
              case "goodbye":
                this.#promised = value;
                return [];
              case "closed": return this.#closed(value, now, chance);
              case "credentialsChanged":
                if (this.state === "parked") return this.#connect();
                this.#hasNewCredentials = true;
                return [];
              case "networkReturned":
                if (this.state === "resting") return this.#connect();
                return this.state === "live" && !this.#isPinging ? this.#ping() : [];
              case "timerFired": return this.#timerFired(now, chance);
              case "stopped": {
                const effects = this.state === "live" ? [["live", false]] : [];
                this.state = "stopped";
                return [...effects, ["drop"], ["wake"]];
              }
              default: return [];
            }
          }

          #connect() {
            this.state = "connecting";
            this.#promised = undefined;
            this.#isPinging = false;
            this.#hasNewCredentials = false;
            return [["connect"], ["wake", PATIENCE]];
          }

          #ping() {
            this.#isPinging = true;
            return [["ping"], ["wake", PONG_PATIENCE]];
          }

          #timerFired(now, chance) {
            switch (this.state) {
              case "resting": return this.#connect();
              case "connecting": case "greeting": return [["drop"], ...this.#rest(afterClose(1006, this.#failures, undefined, chance).delay)];
              case "live": return this.#isPinging ? [["drop"], ...this.#closed(undefined, now, chance)] : this.#ping();
              default: return [["wake"]];
            }
          }

          #closed(code, now, chance) {
            if (["stopped", "parked", "resting"].includes(this.state)) return [];
            const wasLive = this.state === "live";
            const effects = wasLive ? [["live", false]] : [];
            if (wasLive && now - this.#liveSince >= HEALTHY) this.#failures = 0;
            const { action, delay } = afterClose(code, this.#failures, this.#promised, chance);
            // A token that expired during the connection may have been renewed by a call. The token of a hello was the newest.
            if (action === "renew" && wasLive) return [...effects, ["needsCredentials", true], ...this.#rest(delay)];
            if (action === "reconnect") return [...effects, ...this.#rest(delay)];
            if (this.#hasNewCredentials) return [...effects, ...this.#rest(afterClose(1001, this.#failures, undefined, chance).delay)];
            this.state = "parked";
            return [...effects, ["needsCredentials", action === "renew"], ["wake"]];
          }

          #rest(delay) {
            this.#failures += 1;
            this.state = "resting";
            return [["wake", delay]];
          }
        }

        /** Whether a close code is about the web auth token. */
        const isOfToken = (code) => code === 4401 || code === 4450;

        /**
         * Hears that something has changed, over a WebSocket that is kept up for as long as it is wanted.
         *
         * Events: `ready` and `notice` (`detail` is the frame's content), and `down` (`detail` has `code`, `reason`, and the `delay` until
         * the next attempt in milliseconds). A final `down` has `isFinal` instead of `delay`; if the credentials were refused, also `error`
         * and its `redirectURL`, the sign-in page. After a final `down`, `setWebAuthToken` with another token or `start` connects again.
         *
         * A notice is a hint: fetch with the token you have. Whatever happened while there was no connection is told right after
         * `ready`, since each hello says how far one has come. A connection that is dead without having closed is noticed within a
         * minute, and at once when the network returns or the page is shown again.
         */
        export class Notices extends EventTarget {
          #line = new NoticeLine();
          /** Requests for a fresh token since the last good connection. */
          #renewals = 0;
          /** @type {(() => void) | undefined} */ #endPause = undefined;

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
            this.probe = (event) => this.#probe(event);
            this.userChanged = () => this.#userChanged();
          }

          start() {
            this.container.userListeners.add(this.userChanged);
            globalThis.addEventListener?.("online", this.probe);
            globalThis.addEventListener?.("pageshow", this.probe);
            globalThis.document?.addEventListener?.("visibilitychange", this.probe);
            this.#perform("started");
            if (this.#line.state === "parked") this.#perform("credentialsChanged");
          }

          stop() {
            this.container.userListeners.delete(this.userChanged);
            globalThis.removeEventListener?.("online", this.probe);
            globalThis.removeEventListener?.("pageshow", this.probe);
            globalThis.document?.removeEventListener?.("visibilitychange", this.probe);
            this.#perform("stopped");
          }

          /** The network has returned or the page is shown again: ends a pause, and checks an open connection. */
          #probe(event) {
            if (event?.type === "visibilitychange" && globalThis.document?.visibilityState === "hidden") return;
            this.#endPause?.();
            // The browser may close the socket of a frozen page without an event.
            if (this.socket && this.socket.readyState > 1) this.#ended(1006, "The connection was closed.");
            this.#perform("networkReturned");
          }

          /** Replaces the connection of the former user. */
          #userChanged() {
            if (this.#line.state === "stopped") return;
            const wasParked = this.#line.state === "parked";
            this.#perform("stopped");
            this.#line = new NoticeLine();
            this.#renewals = 0;
            if (!this.container.webAuthToken) {
              // The next user's token starts it.
              this.#line.state = "parked";
              if (!wasParked) this.#tell("down", { code: 1000, reason: "No user is signed in.", isFinal: true });
              return;
            }
            if (!wasParked) this.#tell("down", { code: 1000, reason: "The user has changed.", delay: 0 });
            this.#perform("started");
          }

          /** @param {string} event @param {any} [value] */
          #perform(event, value) {
            const effects = this.#line.handle(event, value, Date.now(), Math.random());
            for (const [effect, value] of effects) {
              switch (effect) {
                case "connect": this.#connect(); break;
                case "sendHello": this.#send({ hello: this.#hello() }); break;
                case "ping": this.#send({ ping: {} }); break;
                case "drop": this.#drop(); break;
                case "wake": this.#wake(value); break;
                case "live": this.isLive = value; break;
                // A resting connection uses the new token at its next attempt. For a parked one see `#fallen`.
                case "needsCredentials": if (this.#line.state === "resting") this.#fresh(); break;
              }
            }
            return effects;
          }

          /** @param {number | undefined} delay */
          #wake(delay, act = () => this.#timerFired()) {
            clearTimeout(this.timer);
            if (delay !== undefined) this.timer = setTimeout(act, delay);
          }

          #timerFired() {
            const { socket } = this;
            const effects = this.#perform("timerFired");
            if (socket && !this.socket) this.#fallen(1006, "The relay did not answer.", effects);
          }

          #connect() {
            this.#drop();
            const { url, name, environment } = this.container;
            const address = `${url.replace(/^http/, "ws")}/push/1/${encodeURIComponent(name)}/${environment}`;
            const socket = new WebSocket(address, "zonecast.notices.1");
            this.socket = socket;
            this.spoken = this.container.webAuthToken;
            const turn = this.container.turns;
            // Ignore events of a socket that has been given up.
            const isCurrent = () => this.socket === socket && this.container.turns === turn;
            socket.onopen = () => { if (isCurrent()) this.#perform("opened"); };
            socket.onmessage = (event) => { if (isCurrent()) this.#take(event.data, turn); };
            socket.onclose = (event) => { if (isCurrent()) this.#ended(event.code, event.reason); };
          }

          /** Gives the socket up without waiting for its close event, which may never come. */
          #drop() {
            const { socket } = this;
            this.socket = undefined;
            socket?.close(1000);
          }

          #send(frame) {
            // A closing socket takes no frames.
            if (this.socket && !(this.socket.readyState > 1)) this.socket.send(JSON.stringify(frame));
          }

          #hello() {
            const { deviceID, apiToken: ckAPIToken, webAuthToken: ckWebAuthToken } = this.container;
            this.spoken = ckWebAuthToken;
            return { deviceID, ckAPIToken, ckWebAuthToken, since: this.since() };
          }

          #take(text, turn) {
            this.#perform("heard");
            let frame;
            // Ignore unreadable frames of a later protocol version; a fetch with the tokens brings the changes anyway.
            try { frame = readJSON(text) ?? {}; } catch { return; }
            if (frame.ready) {
              this.#perform("ready");
              this.#renewals = 0;
              this.#tell("ready", frame.ready);
            } else if (frame.notice) {
              this.#tell("notice", frame.notice);
            } else if (frame.renewed) {
              this.container.renew(frame.renewed.ckWebAuthToken, turn);
            } else if (frame.goodbye) {
              this.#perform("goodbye", frame.goodbye.retryAfter);
            }
          }

          #ended(code, reason) {
            this.socket = undefined;
            // The token has changed since the hello, so the refusal does not concern the current one.
            if (isOfToken(code) && this.spoken !== this.container.webAuthToken) this.#perform("credentialsChanged");
            this.#fallen(code, reason, this.#perform("closed", code));
          }

          /** Tells the program. @param {any[][]} effects The effects of the event that ended the connection. */
          #fallen(code, reason, effects) {
            if (this.#line.state !== "parked") {
              return this.#tell("down", { code, reason, delay: effects.find(([effect]) => effect === "wake")?.[1] });
            }
            if (isOfToken(code)) return this.#askForCredentials(code, reason);
            this.#tell("down", { code, reason, isFinal: true });
          }

          /** Makes a call, whose answer brings a fresh token. Returns the error if it fails. */
          async #fresh() {
            let timer;
            const tooLate = new Promise((_, reject) => {
              timer = setTimeout(() => reject(new RelayError({ serverErrorCode: "NETWORK_ERROR" })), PATIENCE);
            });
            try {
              await Promise.race([this.container.currentUser(), tooLate]);
              return undefined;
            } catch (error) {
              return error;
            } finally {
              clearTimeout(timer);
            }
          }

          /**
           * The relay refuses the token. Connects again if a call brings a fresh one; ends with the call's error if it is refused too.
           * Repeats the call with the back-off of a connection while no answer comes.
           */
          async #askForCredentials(code, reason) {
            const line = this.#line;
            const asked = this.#renewals += 1;
            const isOver = () => this.#line !== line || line.state !== "parked" || this.#renewals !== asked;
            if (asked > 1) {
              const { delay } = afterClose(1006, asked - 2, undefined, Math.random());
              this.#tell("down", { code, reason, delay });
              await new Promise((resolve) => {
                this.#endPause = () => resolve(undefined);
                this.#wake(delay, this.#endPause);
              });
              this.#endPause = undefined;
              if (isOver()) return;
            }
            const error = await this.#fresh();
            if (isOver()) return;
            if (this.container.webAuthToken !== this.spoken) {
              this.#tell("down", { code, reason, delay: 0 });
              this.#perform("credentialsChanged");
            } else if (error && (!(error instanceof RelayError) || error.isPassing || error.status >= 500)) {
              await this.#askForCredentials(code, reason);
            } else {
              this.#tell("down", { code, reason, isFinal: true, ...(error && { error, redirectURL: error.redirectURL }) });
            }
          }

          #tell(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }
        }

        """#
}
