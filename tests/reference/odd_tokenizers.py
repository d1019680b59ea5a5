def made():
    return []
