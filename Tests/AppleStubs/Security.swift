// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
// The part of Security, and of Core Foundation's types, that SyncedNotes uses.

public typealias CFString = String
public typealias CFTypeRef = Any
public typealias CFDictionary = [String: Any]

public let kSecClass: CFString = ""
public let kSecClassGenericPassword: CFString = ""
public let kSecAttrService: CFString = ""
public let kSecAttrAccount: CFString = ""
public let kSecReturnData: CFString = ""
public let kSecValueData: CFString = ""
public let kSecAttrAccessible: CFString = ""
public let kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: CFString = ""
public let errSecSuccess: Int32 = 0

@discardableResult public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?)
    -> Int32
{ 0 }
@discardableResult public func SecItemDelete(_ query: CFDictionary) -> Int32 { 0 }
@discardableResult public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?)
    -> Int32
{ 0 }
