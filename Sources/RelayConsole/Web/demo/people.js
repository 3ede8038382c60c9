// Names and colours of people, the same in every view.

const COLOURS = 6;
const KNOWN = ["alice", "bob"];

/** Returns a user's name for display. */
export const personName = (user) => (user ? user[0].toUpperCase() + user.slice(1) : "");

/** Returns a client's name for display: "Alice's phone". */
export function deviceName(client) {
  const [user, device] = client.split("/");
  return device ? `${personName(user)}'s ${device}` : user;
}

/** Returns the class of a person's colour. It depends on the name only, so that all windows agree. */
export function personClass(user) {
  const known = KNOWN.indexOf(user);
  if (known >= 0) return `person-${known}`;
  let sum = 0;
  for (const letter of user) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 9973;
  return `person-${KNOWN.length + (sum % (COLOURS - KNOWN.length))}`;
}
