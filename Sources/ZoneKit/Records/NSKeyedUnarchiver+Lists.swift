#if !canImport(Darwin)
    public import Foundation

    // What Foundation has on Apple's systems only, and programs read their kept records, tokens and addresses with. As all of
    // `NSKeyedUnarchiver` here, it ends the program for an archive that holds objects of another class.
    extension NSKeyedUnarchiver {
        /// Reads an array of objects of one class.
        ///
        /// - Parameters:
        ///   - cls: The class of each.
        ///   - data: The archive.
        /// - Returns: The objects; `nil` for an archive of nothing.
        /// - Throws: What keeps the archive from being read.
        public static func unarchivedArrayOfObjects<Object: NSObject & NSCoding>(
            ofClass cls: Object.Type,
            from data: Data
        ) throws -> [Object]? {
            try unarchivedArrayOfObjects(ofClasses: [cls], from: data) as? [Object]
        }

        /// Reads an array of objects of some classes.
        ///
        /// - Parameters:
        ///   - classes: The class of each is one of these.
        ///   - data: The archive.
        /// - Returns: The objects; `nil` for an archive of nothing.
        /// - Throws: What keeps the archive from being read.
        public static func unarchivedArrayOfObjects(ofClasses classes: [AnyClass], from data: Data) throws -> [Any]? {
            AppleArchive.read()
            return try unarchivedObject(ofClasses: [NSArray.self] + classes, from: data) as? [Any]
        }

        /// Reads a dictionary.
        ///
        /// - Parameters:
        ///   - keyClass: The class of its keys.
        ///   - objectClass: The class of what is under them.
        ///   - data: The archive.
        /// - Returns: The dictionary; `nil` for an archive of nothing.
        /// - Throws: What keeps the archive from being read.
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
