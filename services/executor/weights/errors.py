"""What can be wrong with a model's files, one class for each cause.

ModelFileError
  MalformedModel      the files contradict themselves or their format: broken or hostile; fetch them again or ask their author
  UnsupportedModel    the files are valid and ask for something that Headway does not do
  ModelNotFound       there are no such files; the caller named the wrong thing
  ChecksumMismatch    the files are not the ones that were promised; fetch them again
  FetchFailed         the network or the server that has the files is at fault; try again
"""


class ModelFileError(Exception):
    """Base: a model cannot be used, and the message says whose fault it is and what to do."""


class MalformedModel(ModelFileError):
    """The files contradict themselves or break their format."""


class UnsupportedModel(ModelFileError):
    """The files are valid and ask for something that Headway does not do."""


class ModelNotFound(ModelFileError):
    """There are no such files, or no model of that name."""


class ChecksumMismatch(ModelFileError):
    """The files are not the ones that were promised."""


class FetchFailed(ModelFileError):
    """The network, or the server that has the files, did not deliver."""
