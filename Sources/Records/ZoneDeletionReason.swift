/// The reason why a zone was deleted.
///
/// An extension of CloudKit's wire format: `reason`, next to `deleted` in a database's feed and in the operation that
/// deletes a zone; left out for a plain deletion. The raw values are stored in the database. See Sync.md, "Ends of
/// zones".
package enum ZoneDeletionReason: Int64, Hashable, Sendable, CaseIterable {
    /// The zone was deleted or access was lost: a client with unsent changes creates the zone again.
    case deleted = 0
    /// The user erased the application's data: none of it must come back.
    case purged = 1
    /// The encrypted data can no longer be read: each device uploads its data again.
    case encryptedDataReset = 2

    /// The word on the wire; `nil` for a plain deletion.
    package var word: String? {
        switch self {
        case .deleted: nil
        case .purged: "purged"
        case .encryptedDataReset: "encryptedDataReset"
        }
    }

    /// Returns the reason for a word; an unknown word means a plain deletion.
    package init(word: String?) { self = Self.allCases.first { $0.word == word } ?? .deleted }
}
