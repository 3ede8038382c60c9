public import Foundation
import GRDB
import ZoneKit

/// An error of a mirror; `localizedDescription` says what to do about it.
public struct MirrorError: LocalizedError, Sendable {
    /// The kinds of errors.
    public enum Code: Hashable, Sendable {
        /// The store's file is already open in this container.
        case storeAlreadyLoaded(URL)
        /// Another container, in this process or another, syncs this file.
        case storeSyncedElsewhere
        /// A shared store needs a private store of the same container and account.
        case sharedStoreNeedsPrivateStore
        /// Another store already mirrors this database.
        case databaseAlreadyMirrored
        /// Another version of this library has written the store's file, whose layout this one cannot open; the value is
        /// the version of that layout.
        case unsupportedStoreVersion(Int)
        /// The model breaks rules of mirrored stores; the value lists all violations.
        case modelIncompatible([Violation])
        /// No writable store holds the entity.
        case noStoreForEntity
        /// The store does not belong to this container.
        case unknownStore
        /// The property cannot be used here.
        case unknownProperty
        /// The user may not change these objects.
        case permissionFailure([ObjectID])
        /// The objects have changed since they were read, and the policy merges nothing.
        case mergeConflict([MergeConflict])
        /// The name cannot be a record name, which has 1 to 255 printable ASCII characters.
        case invalidName([ObjectID])
        /// The object is gone, or this user has lost access to it.
        case objectUnavailable
        /// Objects of different stores cannot be related.
        case crossStoreRelationship
        /// Objects of different shares cannot be related.
        case crossShareRelationship
        /// The objects are already in a share.
        case alreadyShared([ObjectID])
        /// The store does not support this.
        case wrongStore
        /// Sharing would include more objects than allowed.
        case tooManyObjects(Int)
        /// The container is closed.
        case closed
        /// An error of the relay or the network.
        case relay
        /// An error of SQLite or the file system.
        case storage
        /// The time was too short.
        case timedOut
    }

    /// The kind of the error.
    public var code: Code
    /// What happened and what to do about it.
    public var explanation: String
    /// The underlying error.
    public var underlying: (any Error)?

    init(_ code: Code, _ explanation: String, underlying: (any Error)? = nil) {
        self.code = code
        self.explanation = explanation
        self.underlying = underlying
    }

    init(from error: any Error) {
        if let error = error as? MirrorError {
            self = error
        } else if let error = error as? CKError, let cause = error.storageCause {
            self.init(from: cause)
        } else if let error = error as? CKError {
            self.init(.relay, error.localizedDescription, underlying: error)
        } else if let error = error as? DatabaseError {
            self.init(.storage, Self.explanation(of: error), underlying: error)
        } else {
            self.init(.storage, "The store's file could not be read or written: \(error)", underlying: error)
        }
    }

    /// Explains an SQLite error and what to do about it.
    private static func explanation(of error: DatabaseError) -> String {
        switch error.resultCode {
        case .SQLITE_FULL:
            "There is no space left on the disk. Nothing was written. Free space, then retry."
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            """
            The store's file is damaged, or not a store: \(error.message ?? "\(error.resultCode)"). Move it away, \
            together with the files whose names begin with its name. Sent changes are fetched from the relay again; unsent \
            changes exist only in that file.
            """
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_CANTOPEN:
            "The store's file cannot be opened for writing: \(error.message ?? "\(error.resultCode)"). Check its permissions."
        default: "The store's file could not be read or written: \(error)"
        }
    }

    /// What happened and what to do about it.
    public var errorDescription: String? {
        guard case .modelIncompatible(let violations) = code else { return explanation }
        return ([explanation] + violations.map(\.description)).joined(separator: "\n")
    }

    /// What a person can do about the error.
    public var recoverySuggestion: String? {
        switch code {
        case .relay, .timedOut: (underlying as? any LocalizedError)?.recoverySuggestion ?? "Retry later."
        case .storeAlreadyLoaded, .databaseAlreadyMirrored: "Use the store that is open already."
        case .storeSyncedElsewhere: "Close the other program, and load the stores again."
        case .sharedStoreNeedsPrivateStore: "Add a private store of the same container and account."
        case .unsupportedStoreVersion: "Update the app, or move the store's file away."
        case .modelIncompatible: "Correct the model as each violation says."
        case .noStoreForEntity, .unknownStore, .closed: "Call loadStores() with a description of that store."
        case .unknownProperty, .wrongStore: "Correct the call."
        case .permissionFailure: "Ask the owner of the data for permission."
        case .mergeConflict: "Read the objects again, merge, and save."
        case .invalidName: "Use 1 to 255 printable ASCII characters."
        case .objectUnavailable: "Fetch again."
        case .crossStoreRelationship, .crossShareRelationship: "Relate objects of one store and one share only."
        case .alreadyShared: "Use the existing share, or stop sharing first."
        case .tooManyObjects: "Share fewer objects, or raise the limit of the call."
        case .storage: "Check the disk's space and the file's permissions, then retry."
        }
    }
}

extension CKError {
    /// Whether the error came from the local file system and not from the relay or network.
    var isOfStorage: Bool {
        guard let cause = userInfo[NSUnderlyingErrorKey] as? NSError else { return false }
        return [DatabaseError.errorDomain, NSCocoaErrorDomain, NSPOSIXErrorDomain].contains(cause.domain)
    }
}

extension CKError {
    /// The SQLite error that prevented sending or fetching, if any.
    fileprivate var storageCause: DatabaseError? {
        guard let cause = userInfo[NSUnderlyingErrorKey] as? NSError, cause.domain == DatabaseError.errorDomain else {
            return nil
        }
        let code = ResultCode(rawValue: CInt(truncatingIfNeeded: cause.code))
        return DatabaseError(resultCode: code, message: cause.localizedFailureReason)
    }

    /// What happened and what to do about it, including for local file errors.
    var explanation: String { storageCause.map { MirrorError(from: $0).explanation } ?? advice }
}

/// An object that was changed in two ways from a common base.
public struct MergeConflict: Hashable, Sendable {
    /// The object.
    public var object: ObjectID
    /// The values that the context read; empty for a new object.
    public var base: [String: String]
    /// The values that the context would write.
    public var memory: [String: String]
    /// The store's values; empty if the object is deleted there.
    public var store: [String: String]
}

/// Identifies an object of a container.
public struct ObjectID: Hashable, Sendable, CustomStringConvertible {
    /// The store that holds it; `nil` if it was never saved.
    public var store: StoreID?
    /// Its entity.
    public var entity: String
    /// Its name.
    public var name: RecordName

    /// Creates an object ID.
    public init(store: StoreID?, entity: String, name: RecordName) {
        self.store = store
        self.entity = entity
        self.name = name
    }

    /// Whether the object has never been saved.
    public var isTemporary: Bool { store == nil }

    /// The entity and the name.
    public var description: String { "\(entity)/\(name)" }
}
