#if !canImport(Darwin)
    public import Foundation
    import Records

    /// Decodes records that were archived by Apple's CloudKit, on platforms that do not have these class names.
    ///
    /// An app that moves to this SDK may have archives of system fields (`encodeSystemFields`) or of whole records.
    /// Their types, IDs, dates and values are used. The change tag is used too, although the relay has not issued it:
    /// the first save of such a record fails with a conflict unless the relay contains the same data.
    enum AppleArchive {
        /// Registers the class names, once.
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

    /// The values in a record that was archived by Apple's CloudKit.
    final class AppleValues: NSObject, NSSecureCoding, Sendable {
        private static let classes: [AnyClass] = [
            NSDictionary.self, NSMutableDictionary.self, NSString.self, NSNumber.self, NSDate.self, NSData.self,
            NSArray.self, NSMutableArray.self, CKReference.self, CKAsset.self, CLLocation.self,
        ]

        // Used only by the record that is being decoded, on the decoding thread.
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
        /// Adds the fields that only archives of Apple's CloudKit contain.
        mutating func addAppleFields(from coder: NSCoder) {
            created = Self.appleStamp("RecordCtime", "CreatorUserRecordID", from: coder) ?? created
            modified = Self.appleStamp("RecordMtime", "LastModifiedUserRecordID", from: coder) ?? modified
            parent = coder.object(CKReference.self, "ParentReference")?.recordID.recordName ?? parent
            share = coder.object(CKReference.self, "ShareReference")?.recordID.recordName ?? share
            for (key, value) in coder.object(AppleValues.self, "ValueStore")?.values ?? [:] {
                adopt(value, for: key)
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
        /// Decodes a record, including one that was archived by Apple's CloudKit.
        ///
        /// - Parameters:
        ///   - cls: `CKRecord` or a subclass of it.
        ///   - data: The archive.
        /// - Returns: The record, or `nil` if the archive is empty.
        /// - Throws: An error if the archive cannot be decoded.
        public static func unarchivedObject<Object: CKRecord>(
            ofClass cls: Object.Type,
            from data: Data
        ) throws -> Object? {
            AppleArchive.read()
            return try unarchivedObject(ofClasses: [cls], from: data) as? Object
        }
    }

    // Methods that only Apple's Foundation has, with which apps decode stored records, tokens and IDs. Like the rest of
    // `NSKeyedUnarchiver` on Linux, they trap if the archive contains objects of another class.
    extension NSKeyedUnarchiver {
        /// Decodes an array of objects of one class.
        ///
        /// - Parameters:
        ///   - cls: The class of the objects.
        ///   - data: The archive.
        /// - Returns: The objects, or `nil` if the archive is empty.
        /// - Throws: An error if the archive cannot be decoded.
        public static func unarchivedArrayOfObjects<Object: NSObject & NSCoding>(
            ofClass cls: Object.Type,
            from data: Data
        ) throws -> [Object]? {
            try unarchivedArrayOfObjects(ofClasses: [cls], from: data) as? [Object]
        }

        /// Decodes an array of objects of some classes.
        ///
        /// - Parameters:
        ///   - classes: The allowed classes of the objects.
        ///   - data: The archive.
        /// - Returns: The objects, or `nil` if the archive is empty.
        /// - Throws: An error if the archive cannot be decoded.
        public static func unarchivedArrayOfObjects(ofClasses classes: [AnyClass], from data: Data) throws -> [Any]? {
            AppleArchive.read()
            return try unarchivedObject(ofClasses: [NSArray.self] + classes, from: data) as? [Any]
        }

        /// Decodes a dictionary.
        ///
        /// - Parameters:
        ///   - keyClass: The class of the keys.
        ///   - objectClass: The class of the values.
        ///   - data: The archive.
        /// - Returns: The dictionary, or `nil` if the archive is empty.
        /// - Throws: An error if the archive cannot be decoded.
        public static func unarchivedDictionary<Key: NSObject & NSCopying & NSCoding, Object: NSObject & NSCoding>(
            ofKeyClass keyClass: Key.Type,
            objectClass: Object.Type,
            from data: Data
        ) throws -> [Key: Object]? {
            AppleArchive.read()
            let classes: [AnyClass] = [NSDictionary.self, keyClass, objectClass]
            return try unarchivedObject(ofClasses: classes, from: data) as? [Key: Object]
        }
    }
#endif
