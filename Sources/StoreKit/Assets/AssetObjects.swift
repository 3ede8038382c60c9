package import Records

/// Storage for the contents of assets that all relays of a cluster reach, such as S3: objects under names, written once.
///
/// Calls block their thread. Safe to call from any thread.
package protocol AssetObjects: Sendable {
    /// The storage, for messages.
    var place: String { get }

    /// Stores a file; returns when the storage has all of it.
    func put(file path: String, size: Int64, as name: String) throws(RelayError)
    /// Writes an object to a new file; `nil` if there is no such object.
    func get(_ name: String, to path: String) throws(RelayError) -> Bool
    /// Deletes an object; one that does not exist is no error.
    func delete(_ name: String) throws(RelayError)
    /// Stores, reads and deletes a small object; returns why that failed, or `nil`.
    func probe() -> String?
}
