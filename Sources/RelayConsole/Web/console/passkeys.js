// Passkeys: signs in with one, and manages the operator's own.

import { call, get } from "./api.js";
import { button, complain, field, fill, guarded, h, say, table } from "./dom.js";
import { moment } from "./format.js";

/** Returns whether the browser offers passkeys here. They need HTTPS or localhost, and a host name instead of an IP address. */
export const hasPasskeys = () => isSecureContext && "PublicKeyCredential" in window && !/^[\d.]+$|^\[/.test(location.hostname);

/**
 * Encodes bytes as base64url.
 * @param {ArrayBuffer} buffer
 */
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
/**
 * Decodes base64url.
 * @param {string} value
 */
const bytes = (value) => Uint8Array.from(atob(value.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));

/** Replaces the browser's errors with messages for users. */
function plain(error) {
  if (error?.name === "NotAllowedError") return new Error("No passkey was chosen in time.");
  if (error?.name === "InvalidStateError") return new Error("This device already has a passkey for your account.");
  return error;
}

/** Signs in with a passkey. Resolves to the relay's welcome answer. */
export async function usePasskey() {
  const { challenge } = await get("passkey");
  let chosen;
  try {
    chosen = /** @type {any} */ (await navigator.credentials.get({
      publicKey: { challenge: bytes(challenge), userVerification: "required", timeout: 240_000 },
    }));
  } catch (error) { throw plain(error); }
  return call("POST", "passkey", {}, {
    id: text(chosen.rawId), clientData: text(chosen.response.clientDataJSON),
    authenticatorData: text(chosen.response.authenticatorData), signature: text(chosen.response.signature),
  });
}

async function addPasskey(name, password) {
  const wanted = await call("POST", "passkeys/begin", {}, {});
  let made;
  try {
    made = /** @type {any} */ (await navigator.credentials.create({
      publicKey: {
        challenge: bytes(wanted.challenge), rp: { name: "Zonecast Console" },
        user: { id: bytes(wanted.user), name: wanted.name, displayName: wanted.name },
        pubKeyCredParams: wanted.algorithms.map((alg) => ({ type: "public-key", alg })),
        excludeCredentials: wanted.known.map((id) => ({ type: "public-key", id: bytes(id) })),
        authenticatorSelection: { residentKey: "required", userVerification: "required" },
        attestation: "none", timeout: 240_000,
      },
    }));
  } catch (error) { throw plain(error); }
  const { response } = made;
  await call("POST", "passkeys", {}, {
    name, password, algorithm: response.getPublicKeyAlgorithm(), publicKey: text(response.getPublicKey()),
    clientData: text(response.clientDataJSON), authenticatorData: text(response.getAuthenticatorData()),
  });
}

/** Returns the contents of a dialog that lists the operator's own passkeys. */
export function passkeyList() {
  const body = h("div", { id: "passkeys" });
  const draw = async () => {
    const { passkeys } = await get("passkeys");
    const name = h("input", { type: "text", required: true, maxlength: 100, placeholder: "my laptop", "aria-label": "Name of the new passkey" });
    const password = h("input", { type: "password", required: true, autocomplete: "current-password" });
    fill(body,
      table([
        ["Name", (one) => one.name], ["Created", (one) => moment(one.created)], ["Last used", (one) => one.used ? moment(one.used) : "never"],
        ["", (one) => button("Delete", async () => {
          await call("DELETE", "passkeys", { id: one.id });
          say(`${one.name} is deleted.`);
          await draw();
        }, { class: "small", "aria-label": `Delete ${one.name}` })],
      ], passkeys, "No passkeys yet. A passkey signs you in with your device's PIN, fingerprint or face.", { caption: "Passkeys" }),
      hasPasskeys() ? h("form", {
        onsubmit: guarded(async (event) => {
          event.preventDefault();
          await addPasskey(name.value.trim(), password.value);
          say("The passkey is created. You can sign in with it or with your password.");
          await draw();
        }),
      }, field("Name", name), field("Your password", password, "Required to confirm: a passkey gives lasting access to the console."),
      h("div.actions", null, h("button", { type: "submit" }, "Create passkey")))
        : h("p.quiet", null, "Browsers support passkeys only on https pages and at http://localhost."));
  };
  draw().catch(complain);
  return body;
}
