extension DemoPages {
    /// A part of `/zonecast.js`: a container on a relay, its calls, its user and the shares of others.
    static let containerModule = #"""

        /** A container on a relay, as one user or nobody sees it from one device. */
        export class Container {
          /**
           * @param {object} settings
           * @param {string} [settings.url] Where the relay is; by default where this module came from.
           * @param {string} settings.container Like `iCloud.org.example.notes`.
           * @param {"development" | "production"} [settings.environment]
           * @param {string} [settings.apiToken] Needed but by a relay in `--dev`.
           * @param {string} [settings.webAuthToken] Who speaks; `dev-NAME` with a relay in `--dev`. Without: nobody.
           * @param {string} [settings.deviceID] Names this device, so that it hears nothing of its own changes.
           * @param {number} [settings.retries] How often a call is repeated when the relay says so, at most.
           * @param {(token: string | undefined) => void} [settings.onToken] The web auth token has changed: keep it.
           * @param {(exchange: Exchange) => void} [settings.onExchange] Sees every request with its answer.
           * @param {typeof fetch} [settings.fetch] Instead of the browser's own.
           */
          constructor(settings) {
            this.url = (settings.url ?? new URL(".", import.meta.url).href).replace(/\/$/, "");
            this.name = settings.container;
            this.environment = settings.environment ?? "development";
            this.apiToken = settings.apiToken;
            this.webAuthToken = settings.webAuthToken;
            /** How often another user has come: what was begun before is not gone on with in their name. */
            this.turns = 0;
            /** Called when the user changes: the notice connections. @type {Set<() => void>} */
            this.userListeners = new Set();
            /** How often the user has come into shares. */
            this.arrivals = 0;
            this.deviceID = settings.deviceID ?? randomName();
            this.retries = settings.retries ?? 3;
            this.onToken = settings.onToken ?? (() => {});
            this.onExchange = settings.onExchange ?? (() => {});
            this.fetch = settings.fetch ?? ((address, options) => fetch(address, options));
            this.publicDatabase = new Database(this, "public");
            /** What answers have told about fields that a plain value does not tell. */
            this.fieldForms = new FieldForms();
            this.privateDatabase = new Database(this, "private");
            this.sharedDatabase = new Database(this, "shared");
          }

          /**
           * Becomes another user, or nobody.
           * @param {string | undefined} token
           */
          setWebAuthToken(token) {
            if (token === this.webAuthToken) return;
            this.turns += 1;
            this.webAuthToken = token;
            for (const listener of this.userListeners) listener();
            this.onToken(token);
          }

          /**
           * Takes a fresh token of the same user, unless it comes after their turn.
           * @param {string | null} token
           * @param {number} turn That of the request which brought it.
           */
          renew(token, turn) {
            if (!token || !this.webAuthToken || turn !== this.turns || token === this.webAuthToken) return;
            this.webAuthToken = token;
            this.onToken(token);
          }

          /**
           * Calls an operation; throws a `RelayError`. Repeats by itself what the relay asks to be repeated.
           * @param {string} operation Like `private/records/modify`.
           * @param {any} [body] Without one it is a GET.
           * @param {{ signal?: AbortSignal, of?: "database" | "device" }} [options]
           * @returns {Promise<any>}
           */
          async call(operation, body, options = {}) {
            const turn = this.turns;
            for (let attempt = 0; ; attempt += 1) {
              try {
                return await this.#callOnce(operation, body, options);
              } catch (error) {
                const isForNow = error instanceof RelayError && error.retryAfter !== undefined;
                if (!isForNow || attempt >= this.retries || error.retryAfter > 60) throw error;
                await pause(error.retryAfter * 1000 * (1 + Math.random() / 4), options.signal);
                if (turn !== this.turns) throw error;
              }
            }
          }

          /**
           * @param {string} operation
           * @param {any} body
           * @param {{ signal?: AbortSignal, of?: "database" | "device" }} options
           */
          async #callOnce(operation, body, { signal, of = "database" }) {
            const path = `/${of}/1/${encodeURIComponent(this.name)}/${this.environment}/${operation}`;
            const query = new URLSearchParams();
            if (this.apiToken) query.set("ckAPIToken", this.apiToken);
            if (this.webAuthToken) query.set("ckWebAuthToken", this.webAuthToken);
            const text = body === undefined ? undefined : sendable(body);
            const seen = { method: body === undefined ? "GET" : "POST", path, body, status: 0, answer: undefined };
            const started = performance.now();
            const turn = this.turns;
            try {
              const response = await this.fetch(`${this.url}${path}?${query}`, {
                method: seen.method,
                headers: { "Content-Type": "application/json", "X-Zonecast-Device-ID": this.deviceID },
                body: text,
                cache: "no-store", signal,
              });
              seen.status = response.status;
              this.renew(response.headers.get("X-Apple-CloudKit-Web-Auth-Token"), turn);
              seen.answer = readJSON(await response.text());
            } catch (error) {
              if (signal?.aborted) throw signal.reason;
              seen.error = String(error);
              const reason = `No answer came from ${this.url}.`;
              throw new RelayError({ serverErrorCode: "NETWORK_ERROR", reason }, seen.status);
            } finally {
              this.onExchange({ ...seen, started, ended: performance.now() });
            }
            if (seen.status !== 200) throw new RelayError(seen.answer, seen.status);
            return seen.answer;
          }

          // Who

          /** Who speaks; throws `AUTHENTICATION_REQUIRED` with a `redirectURL` when nobody does. */
          currentUser() { return this.call("public/users/caller"); }

          /**
           * People who may be found.
           * @param {{ emailAddress?: string, phoneNumber?: string, userRecordName?: string }[]} infos
           */
          async discoverUsers(infos) { return (await this.call("public/users/discover", { lookupInfos: infos })).users; }

          /**
           * Signs in by the relay's page in a window of its own; to be called in answer to a click, or the browser opens none.
           * The API token must name this page's origin (`--allowed-origin`). Resolves with the user when the page has called back.
           * @param {{ signal?: AbortSignal }} options
           */
          async signIn({ signal } = {}) {
            // Opened before anything is awaited: afterwards it is no answer to the click any more.
            const page = window.open("", "zonecast-sign-in", "popup,width=480,height=720");
            const address = await this.signInAddress();
            if (!address) {
              page?.close();
              return this.currentUser();
            }
            if (!page) throw new RelayError({ serverErrorCode: "SIGN_IN_FAILED", reason: "The browser opened no window." });
            page.location.href = address;
            const token = await new Promise((resolve, reject) => {
              const end = (settle, value) => {
                clearInterval(watch);
                window.removeEventListener("message", hear);
                settle(value);
              };
              const hear = (event) => {
                if (event.origin !== new URL(address).origin || !event.data?.ckWebAuthToken) return;
                end(resolve, event.data.ckWebAuthToken);
              };
              const gone = new RelayError({ serverErrorCode: "SIGN_IN_FAILED", reason: "The sign-in page was closed." });
              let closedFor = 0;
              const watch = setInterval(() => {
                // The message of a page that closes itself comes a moment after the page has gone.
                closedFor = page.closed ? closedFor + 1 : 0;
                if (closedFor > 4 || signal?.aborted) end(reject, signal?.reason ?? gone);
              }, 250);
              window.addEventListener("message", hear);
            });
            this.setWebAuthToken(token);
            return this.currentUser();
          }

          /**
           * Where the sign-in page is; `undefined` for a container that has a user.
           * @returns {Promise<string | undefined>}
           */
          async signInAddress() {
            try {
              await this.currentUser();
              return undefined;
            } catch (error) {
              if (error instanceof RelayError && error.redirectURL) return error.redirectURL;
              throw error;
            }
          }

          /**
           * Trades an identity token (JWT) of an issuer that the container trusts for a sign-in.
           * @param {string} identityToken
           */
          async signInWithIdentityToken(identityToken) {
            const answer = await this.call("public/users/signin", { identityToken });
            this.setWebAuthToken(answer.ckWebAuthToken);
            return answer;
          }

          /** Ends the sign-in, on the relay too. */
          async signOut() {
            try {
              if (this.webAuthToken && !this.webAuthToken.startsWith("dev-")) await this.call("public/users/signout", {});
            } finally {
              this.setWebAuthToken(undefined);
            }
          }

          // Pushes

          /**
           * Has the relay wake this browser through its push service while no page of it listens; in a service worker the `push`
           * event then has CloudKit's payload: `readJSON(event.data.text())`. To be called in answer to a click.
           * @param {ServiceWorkerRegistration} registration
           */
          async registerPush(registration) {
            const keys = (await this.call("push/keys", {}, { of: "device" })).webPush;
            const applicationServerKey = keys?.applicationServerKey;
            if (!applicationServerKey) throw new RelayError({ serverErrorCode: "NOT_FOUND", reason: "This relay sends no Web Push." }, 404);
            const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
            return this.call("push/register", { webPush: subscription.toJSON() }, { of: "device" });
          }

          /**
           * Wakes this browser no longer.
           * @param {ServiceWorkerRegistration} registration
           */
          async unregisterPush(registration) {
            await (await registration.pushManager.getSubscription())?.unsubscribe();
            await this.call("push/unregister", {}, { of: "device" });
          }

          // Shares of others

          /**
           * What links lead to, without joining.
           * @param {string[]} links Addresses of shares, or their last part.
           */
          resolveShares(links) { return this.#shares("resolve", links); }

          /**
           * Joins shares; each item is what the wire says, or a `RelayError`.
           * @param {string[]} links
           */
          async acceptShares(links) {
            const shares = await this.#shares("accept", links);
            this.arrivals += 1;
            return shares;
          }

          async #shares(verb, links) {
            const shortGUIDs = links.map((link) => ({ value: linkValue(link), shouldFetchRootRecord: true }));
            return (await this.call(`public/records/${verb}`, { shortGUIDs })).results.map(result);
          }
        }

        /** The JSON text of a body. Throws an error that names the field if a value has no JSON form. */
        function sendable(body) {
          try {
            return writeJSON(body);
          } catch (error) {
            if (!(error instanceof UnwritableValue)) throw error;
            const at = error.path.indexOf("fields");
            const place = at < 0 ? error.path.join(".") : `Field "${error.path[at + 1]}"`;
            throw unsendable(`${place}: ${error.what} is not a value that a field can hold. Nothing was sent.`);
          }
        }

        /** The last part of a share's address. */
        const linkValue = (link) => decodeURIComponent(link.split(/[?#]/)[0].split("/").filter(Boolean).pop() ?? "");

        /** 32 digits; unlike `crypto.randomUUID` also there for pages that came without TLS. */
        export const randomName = () =>
          Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

        const pause = (milliseconds, signal) => new Promise((resolve, reject) => {
          const timer = setTimeout(resolve, milliseconds);
          signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
        });

        """#
}
