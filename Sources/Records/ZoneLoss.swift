/// Why a zone is there no more.
///
/// See Sync.md, "Ends of zones". Ours on the wire: `reason`, beside `deleted` in a database's feed, and in the
/// operation that ends a zone; left out for a plain deletion. The raw values are those of the store's rows.
package enum ZoneLoss: Int64, Hashable, Sendable, CaseIterable {
    /// Somebody deleted it, or access to it has ended: what was never sent makes it anew.
    case deleted = 0
    /// The user erased the application's data: nothing that it held is to come back.
    case purged = 1
    /// Nobody can read any more what is encrypted in it: each device sends again what it holds.
    case encryptedDataReset = 2

    /// How it stands on the wire; `nil` for a plain deletion, of which nothing is said.
    package var word: String? {
        switch self {
        case .deleted: nil
        case .purged: "purged"
        case .encryptedDataReset: "encryptedDataReset"
        }
    }

    /// The reason of that word; a word that is not known yet is a plain deletion.
    package init(word: String?) { self = Self.allCases.first { $0.word == word } ?? .deleted }
}
