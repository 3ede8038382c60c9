import Records

/// GRDB has a class of this name too.
typealias Record = Records.Record
