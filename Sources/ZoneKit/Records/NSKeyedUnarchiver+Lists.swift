#if !canImport(Darwin)
    public import Foundation

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
