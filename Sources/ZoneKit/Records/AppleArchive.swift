#if !canImport(Darwin)
    public import Foundation
    import Records

    /// Records that Apple's own framework archived, read on systems where these names are nobody else's.
    ///
    /// A program that moves here with its data has system fields that it kept with `encodeSystemFields`, or whole records. What
    /// they say of type, address, dates and values is taken over; the change tag too, though no relay has given it out: the
    /// first save of such a record is a conflict unless the relay was filled from the same data.
    enum AppleArchive {
        /// Makes the names known, once.
        static func read() { _ = areNamesKnown }

        private static let areNamesKnown: Bool = {
            let classes: [(AnyClass, String)] = [
                (CKRecord.self, "CKRecord"), (CKRecordID.self, "CKRecordID"), (CKRecordZoneID.self, "CKRecordZoneID"),
                (CKReference.self, "CKReference"), (CKAsset.self, "CKAsset"), (CKShare.self, "CKShare"),
                (AppleValues.self, "CKRecordValueStore"), (AppleValues.self, "CKEncryptedRecordValueStore"),
            ]
            classes.forEach { NSKeyedUnarchiver.setClass($0.0, forClassName: $0.1) }
            return true
        }()
    }

    /// The values in an archived record of Apple's.
    final class AppleValues: NSObject, NSSecureCoding, Sendable {
        private static let classes: [AnyClass] = [
            NSDictionary.self, NSMutableDictionary.self, NSString.self, NSNumber.self, NSDate.self, NSData.self,
            NSArray.self, NSMutableArray.self, CKReference.self, CKAsset.self, CLLocation.self,
        ]

        // Taken over by the record that is being read, on the thread that reads it.
        nonisolated(unsafe) let values: [String: Any]

        init?(coder: NSCoder) {
            let found =
                coder.containsValue(forKey: "RecordValues")
                ? coder.decodeObject(of: Self.classes, forKey: "RecordValues") : nil
            values = found as? [String: Any] ?? [:]
        }

        static var supportsSecureCoding: Bool { true }

        func encode(with coder: NSCoder) { coder.encode(values as NSDictionary, forKey: "RecordValues") }
    }

    extension RecordState {
        /// Adds what only an archive of Apple's has.
        mutating func addAppleFields(from coder: NSCoder) {
            created = Self.appleStamp("RecordCtime", "CreatorUserRecordID", from: coder) ?? created
            modified = Self.appleStamp("RecordMtime", "LastModifiedUserRecordID", from: coder) ?? modified
            parent = coder.object(CKReference.self, "ParentReference")?.recordID.recordName ?? parent
            share = coder.object(CKReference.self, "ShareReference")?.recordID.recordName ?? share
            for (key, value) in coder.object(AppleValues.self, "ValueStore")?.values ?? [:] {
                takeOver(value, for: key)
            }
        }

        private static func appleStamp(_ date: String, _ user: String, from coder: NSCoder) -> Record.Stamp? {
            guard let at = coder.object(NSDate.self, date), let by = coder.object(CKRecord.ID.self, user) else {
                return nil
            }
            return Record.Stamp(
                at: Timestamp(at as Date),
                by: UserID(by.recordName),
                deviceID: coder.text("ModifiedByDevice") ?? ""
            )
        }
    }

    extension NSKeyedUnarchiver {
        /// Reads a record, also one that Apple's framework archived.
        ///
        /// - Parameters:
        ///   - cls: `CKRecord`, or a class of the program's own that inherits from it.
        ///   - data: The archive.
        /// - Returns: The record; `nil` for an archive of nothing.
        /// - Throws: What keeps the archive from being read.
        public static func unarchivedObject<Object: CKRecord>(
            ofClass cls: Object.Type,
            from data: Data
        ) throws -> Object? {
            AppleArchive.read()
            return try unarchivedObject(ofClasses: [cls], from: data) as? Object
        }
    }
#endif
